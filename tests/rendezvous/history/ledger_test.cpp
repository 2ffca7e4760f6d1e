// Where the time of a job went: each moment is booked once, and what a failure cost is told with it.
#include "rendezvous/history/ledger.hpp"

#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

struct Job {
  Ledger ledger;
  TimePoint now{100h};
  std::vector<story::Stretch> booked;
  std::uint64_t number = 0;

  Job() { open_ledger(ledger, now); }
  void add(std::vector<story::Stretch> const& more) { booked.insert(booked.end(), more.begin(), more.end()); }
  void form(Millis waited) {
    now += waited;
    add(book_wait(ledger, now));
  }
  void start(Millis after) {
    now += after;
    start_generation(ledger, now);
    ++number;
  }
  /// `steps`: the first and the newest, since its workers were started.
  void trouble(Millis after, std::optional<std::pair<Millis, Millis>> steps = {}, Millis checkpoints = {}) {
    auto const began = now;
    now += after;
    stop_generation(ledger, now);
    if (steps) {
      note_steps(ledger, ago({began + steps->first, began + steps->second, checkpoints}, now), now);
    }
  }
  void end(Millis after, bool failed) {
    now += after;
    add(close_generation(ledger, {number, 2, 8, failed, {}, {}, {}, "rank 3 on n1: exit code 1"}, now));
  }
  [[nodiscard]] Millis spent(Spent on) const { return ledger.history.account[on]; }
  [[nodiscard]] PastGeneration const& last() const { return ledger.history.past.back(); }
};

}  // namespace

TEST_CASE("ledger: a job that ends well waits, starts up and trains", "[unit]") {
  Job job;
  job.form(2s);
  job.start(1s);
  note_steps(job.ledger, {}, job.now);
  auto const began = job.now;
  job.now += 60s;
  note_steps(job.ledger, ago({began + 5s, began + 59s}, job.now), job.now);
  job.end(0s, false);
  CHECK(job.spent(Spent::waiting) == 2s);
  CHECK(job.spent(Spent::startup) == 6s);
  CHECK(job.spent(Spent::training) == 55s);
  CHECK(job.spent(Spent::lost) == 0s);
  CHECK(job.last() == PastGeneration{1, 2, 8, false, 3s, 60s, 0s, "rank 3 on n1: exit code 1"});
}

TEST_CASE("ledger: a failure costs from its newest step to the first step of the next generation", "[unit]") {
  Job job;
  job.form(2s);
  job.start(1s);
  job.trouble(60s, {{4s, 50s}});
  job.end(5s, true);
  job.form(3s);
  job.start(2s);
  job.trouble(30s, {{7s, 28s}});
  job.end(1s, true);
  CHECK(job.spent(Spent::startup) == 5s);  // the second one's is lost to the first
  CHECK(job.spent(Spent::training) == 46s + 21s);
  CHECK(job.ledger.history.past[0].lost == 10s + 5s + 3s + 2s + 7s);
  CHECK(job.last().lost == 2s + 1s);
  CHECK(job.spent(Spent::lost) == 30s);
}

TEST_CASE("ledger: what checkpoints have held up is no training, and no more than there was time to train", "[unit]") {
  Job job;
  job.form(0s);
  job.start(0s);
  job.trouble(60s, {{10s, 50s}}, 3s);
  job.end(0s, true);
  CHECK(job.spent(Spent::startup) == 10s);
  CHECK(job.spent(Spent::training) == 37s);
  CHECK(job.spent(Spent::checkpoint) == 3s);
  CHECK(job.last().lost == 10s);
  job.start(0s);
  job.trouble(20s, {{4s, 10s}}, 1h);
  job.end(0s, false);
  CHECK(job.spent(Spent::training) == 37s);
  CHECK(job.spent(Spent::checkpoint) == 3s + 16s);
}

TEST_CASE("ledger: a checkpoint that is made because the job ends is part of the stop", "[unit]") {
  Job job;
  job.start(0s);
  job.trouble(20s, {{0s, 18s}});
  job.now += 5s;
  note_steps(job.ledger, {25s, 0s, 6s}, job.now);  // it began a second before the stop
  job.end(0s, false);
  CHECK(job.spent(Spent::training) == 19s);
  CHECK(job.spent(Spent::checkpoint) == 1s);
  CHECK(job.spent(Spent::stopping) == 5s);
}

TEST_CASE("ledger: a generation that completes no step trains nothing where others have", "[unit]") {
  Job job;
  job.form(0s);
  job.start(0s);
  job.trouble(10s, {{1s, 9s}});
  job.end(0s, true);
  job.form(0s);
  job.start(0s);
  job.trouble(20s);
  job.end(0s, true);
  CHECK(job.spent(Spent::training) == 8s);
  CHECK(job.ledger.history.past[0].lost == 21s);
  CHECK(job.last().lost == 0s);  // the one before had cost it already
}

TEST_CASE("ledger: a program that tells of no steps trains while its workers run", "[unit]") {
  Job job;
  job.form(1s);
  job.start(1s);
  job.trouble(20s);
  job.end(2s, true);
  CHECK(job.spent(Spent::startup) == 1s);
  CHECK(job.spent(Spent::training) == 20s);
  CHECK(job.spent(Spent::lost) == 2s);
  job.form(3s);
  job.start(0s);
  job.now += 10s;
  note_steps(job.ledger, {std::nullopt, 4s}, job.now);  // a last sign of life, for it hangs
  stop_generation(job.ledger, job.now);
  job.end(0s, true);
  CHECK(job.spent(Spent::training) == 26s);
  CHECK(job.last().lost == 4s);
}

TEST_CASE("ledger: of two nodes the first step counts and the newest, and a sign of life only without steps",
          "[unit]") {
  TimePoint const at{1h};
  StepTimes const none;
  StepTimes const alive{std::nullopt, at + 9s};
  StepTimes const some{at + 1s, at + 5s};
  StepTimes const others{at + 2s, at + 6s};
  CHECK(both(none, some) == some);
  CHECK(both(some, none) == some);
  CHECK(both(alive, some) == some);
  CHECK(both(some, alive) == some);
  CHECK(both(alive, none) == alive);
  CHECK(both(some, others) == StepTimes{at + 1s, at + 6s});
}

TEST_CASE("ledger: of two nodes the one counts whose checkpoints took longer, if it has told of a step", "[unit]") {
  TimePoint const at{1h};
  StepTimes const saves{at + 1s, at + 5s, 2s};
  CHECK(both(saves, {at + 2s, at + 6s, 1s}).checkpoints == 2s);
  CHECK(both({at + 2s, at + 6s, 1s}, saves).checkpoints == 2s);
  CHECK(both(saves, {}).checkpoints == 2s);
  CHECK(both(saves, {std::nullopt, at + 9s, 9s}).checkpoints == 2s);  // it has loaded one, and trained nothing
  CHECK(both({std::nullopt, at + 9s, 9s}, saves).checkpoints == 2s);
}

TEST_CASE("ledger: a stop without a failure costs nothing but the stop", "[unit]") {
  Job job;
  job.form(0s);
  job.start(0s);
  job.trouble(20s, {{5s, 10s}});
  job.end(4s, false);
  job.form(3s);
  CHECK(job.spent(Spent::training) == 15s);
  CHECK(job.spent(Spent::stopping) == 4s);
  CHECK(job.spent(Spent::waiting) == 3s);
  CHECK(job.spent(Spent::lost) == 0s);
}

TEST_CASE("ledger: what agents say of their steps is not believed beyond the generation", "[unit]") {
  Job job;
  job.form(1s);
  job.start(0s);
  job.trouble(10s, {{-1h, 5h}});
  job.end(0s, true);
  CHECK(job.spent(Spent::training) == 10s);
  CHECK(job.ledger.history.account.total() == 11s);
}

TEST_CASE("ledger: whoever takes over goes on with what the decree says", "[unit]") {
  Job job;
  job.form(2s);
  job.start(0s);
  job.trouble(10s, {{1s, 9s}});
  job.end(1s, true);
  job.form(4s);
  History const decided = in_short(job.ledger.history);
  Ledger next;
  TimePoint const there{7h};  // another host's clock; it heard of the decree 30 s ago
  inherit(next, decided, there - 30s - decided.account.total(), there);
  CHECK(next.history == decided);
  CHECK(age(next, there) == 17s + 30s);
  CHECK(owes(next.history));
  start_generation(next, there - 28s);
  stop_generation(next, there);
  note_steps(next, {20s, 5s}, there);
  (void)close_generation(next, {2, 1, 4, true, {}, {}, {}, "node lost: n0"}, there + 2s);
  CHECK(next.history.account.total() == 49s);
  CHECK(next.history.past[0].lost == 1s + 1s + 4s + 10s);
  CHECK(next.history.account[Spent::training] == 8s + 15s);
  CHECK(next.history.past[1].lost == 7s);
  SECTION("with nothing known but the decree") {
    inherit(next, decided, std::nullopt, there);
    CHECK(age(next, there) == 17s);
  }
  SECTION("and a clock that says less than the account has") {
    inherit(next, decided, there, there);
    CHECK(age(next, there) == 17s);
  }
}

TEST_CASE("ledger: while workers run what is known is told, and stays true when their generation has ended") {
  Job job;
  auto const told = [&job](StepTimes const& steps, std::optional<TimePoint> idle_until = {}) {
    return so_far(job.ledger, steps, idle_until);
  };
  job.now += 2s;
  CHECK(told({}, job.now)->account[Spent::waiting] == 2s);
  CHECK(told({})->account.total() == 0s);
  job.form(0s);
  job.start(1s);
  CHECK_FALSE(told({}));  // they may have made steps
  auto const began = job.now;
  job.now += 20s;
  CHECK(told({}, job.now)->account.total() == 3s);  // it may be a program that tells of no steps
  CHECK_FALSE(told({}, job.now)->steps);
  StepTimes const steps{began + 5s, began + 18s, 3s};
  auto const running = told(steps);
  CHECK(running->steps);
  CHECK(running->account[Spent::startup] == 6s);
  CHECK(running->account[Spent::training] == 10s);
  CHECK(running->account[Spent::checkpoint] == 3s);
  CHECK(running->account.total() == 21s);  // what follows the newest step is not known yet
  stop_generation(job.ledger, began + 16s);
  CHECK(told(steps)->account.total() == 19s);  // no step counts that was made during the stop
  job.ledger.stopping.reset();
  CHECK(job.ledger.history.account.total() == 2s);  // nothing of it is booked
  job.trouble(0s);
  note_steps(job.ledger, ago(steps, job.now), job.now);
  job.end(1s, true);
  CHECK(job.spent(Spent::training) == 10s);
  CHECK(told({})->account == job.ledger.history.account);
  job.form(4s);
  job.start(0s);
  job.now += 5s;
  CHECK(told({}, job.now)->account[Spent::lost] == job.spent(Spent::lost) + 5s);  // until the first step
}

TEST_CASE("ledger: a decree holds the newest ends only, in bytes that every voter writes alike", "[unit]") {
  Job job;
  for (int i = 0; i < 9; ++i) {
    job.start(1s);
    job.end(1s, true);
  }
  job.ledger.history.past.back().why = std::string("ranks \"3\" on n\\1: \xff\n") + std::string(500, 'x');
  History const brief = in_short(job.ledger.history);
  CHECK(brief.past.size() == kPastOfDecree);
  CHECK(brief.left_out == 6);
  CHECK(brief.past.back().number == 9);
  CHECK(brief.past.back().why.size() == kWhyOfDecree);
  CHECK(brief.past.back().why.starts_with("ranks '3' on n'1: ??xxx"));
  CHECK(brief.account == job.ledger.history.account);
  CHECK(in_short(brief) == brief);
}

TEST_CASE("ledger: whatever happens, each moment is booked once", "[unit]") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    auto const some = [&](int most) { return Millis(std::uniform_int_distribution<int>(0, most)(random)); };
    auto const perhaps = [&] { return std::uniform_int_distribution<int>(0, 1)(random) == 1; };
    Job job;
    auto const opened = job.now;
    for (int generation = 0; generation < 12; ++generation) {
      job.form(some(5000));
      if (perhaps()) {
        continue;  // a member was lost before it ran
      }
      job.start(some(3000));
      if (perhaps()) {
        auto const steps = std::pair{some(30'000), some(30'000)};
        job.trouble(some(20'000), perhaps() ? std::optional(steps) : std::nullopt, some(20'000));
      }
      job.end(some(4000), perhaps());
      if (perhaps()) {
        inherit(job.ledger, in_short(job.ledger.history), opened, job.now);
      }
    }
    job.form(some(10));
    INFO("seed " << seed);
    auto const age = std::chrono::duration_cast<Millis>(job.now - opened);
    CHECK(job.ledger.history.account.total() == age);
    Millis to{0};
    Account again;
    for (auto const& each : job.booked) {
      CHECK(each.from == to);
      CHECK(each.to > each.from);
      again[each.spent] += each.to - each.from;
      to = each.to;
    }
    CHECK(to == age);
    CHECK(again == job.ledger.history.account);
    Millis lost{0};
    for (auto const& each : job.ledger.history.past) {
      lost += each.lost;
    }
    CHECK(lost <= again[Spent::lost]);
    CHECK((job.ledger.history.left_out > 0 || lost == again[Spent::lost]));
  }
}
