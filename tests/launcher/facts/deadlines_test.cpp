#include "launcher/facts/deadlines.hpp"

#include <csignal>

#include "tests/support/catch.hpp"
#include "tests/support/said.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
namespace countdown = cxxrun::launcher::countdown;

namespace {

constexpr TimePoint kT0{};
constexpr std::int64_t kUnix = 1'800'000'000;

EndPlan plan_with(Millis left, bool ours = false) {
  EndPlan plan;
  plan.end = kT0 + left;
  plan.ours = ours;
  plan.checkpoint = CheckpointSignal{SIGUSR1, 120s};
  return plan;
}

struct Driver {
  EndPlan plan;
  countdown::State state{};
  countdown::Step feed(countdown::Event const& event, Millis at) {
    auto result = countdown::step(state, event, kT0 + at, plan);
    state = result.next;
    return result;
  }
};

template <class Action>
bool has(countdown::Step const& step, Action const& wanted) {
  return std::find(step.actions.begin(), step.actions.end(), countdown::Action(wanted)) != step.actions.end();
}

bool does_nothing(countdown::Step const& step) {
  return step.actions.empty() && step.said.empty();
}

bool passes(countdown::Step const& step) {
  return has(step, countdown::Pass{SIGUSR1});
}

bool says(countdown::Step const& step, std::string const& part) {
  return text_of(step.said).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("deadlines: --time-limit has Slurm's forms", "[unit]") {
  std::vector<std::pair<char const*, Millis>> const forms = {
      {"90", 90min},       {"1:30", 90s},      {"2:00:05", 7205s}, {"1-2", 26h},  {"1-2:30", 26h + 30min},   {"0", 0ms},
      {"1-2:3:4", 93784s}, {"UNLIMITED", 0ms}, {"infinite", 0ms},  {"0:00", 0ms}, {"9999999:00:00", 26'280h}};
  for (auto const& [text, expected] : forms) {
    auto const limit = parse_time_limit(text);
    REQUIRE(limit);
    CHECK(*limit == expected);
  }
  for (char const* const text :
       {"", "-", "1-", "-1", "1:", ":1", "1:2:3:4", "1-2:3:4:5", "1h", "1.5", "99999999999", "1-2-3", " 5", "4000-1"}) {
    CHECK_FALSE(parse_time_limit(text));
  }
}

TEST_CASE("deadlines: a checkpoint signal is one that can be caught, and a time", "[unit]") {
  CHECK(*parse_checkpoint_signal("USR1@120") == CheckpointSignal{SIGUSR1, 120s});
  CHECK(*parse_checkpoint_signal("SIGUSR2@1") == CheckpointSignal{SIGUSR2, 1s});
  for (char const* const text : {"USR1", "@120", "USR1@", "USR1@0", "USR1@-1", "NONE@5", "KILL@5", "STOP@5", "USR1@1.5",
                                 "USR1@99999999999", "USR1@5@6"}) {
    CHECK_FALSE(parse_checkpoint_signal(text));
  }
}

TEST_CASE("deadlines: the job ends at the earlier of Slurm's end and --time-limit, which counts from the start",
          "[unit]") {
  struct Row {
    Millis limit;
    std::string slurm_end;
    std::optional<TimePoint> end;
    bool ours;
  };
  for (auto const& [limit, slurm_end, end, ours] :
       {Row{10min, std::to_string(kUnix + 300), kT0 + 300s, false},
        Row{4min, std::to_string(kUnix + 300), kT0 + 4min, true},
        Row{0ms, std::to_string(kUnix + 300), kT0 + 300s, false}, Row{10min, "", kT0 + 10min, true}}) {
    auto const plan = plan_end(std::nullopt, limit, {"", slurm_end}, kUnix, kT0);
    CHECK(plan.end == end);
    CHECK(plan.ours == ours);
    CHECK(plan.notes.empty());
  }
}

TEST_CASE("deadlines: the coordinator's instant counts, also instead of an end that other clocks read differently",
          "[unit]") {
  using rendezvous::JobEnd;
  auto const plan = plan_end(CheckpointSignal{SIGUSR1, 9s}, 10min, {"", std::to_string(kUnix + 900)}, kUnix, kT0);
  CHECK(job_end(plan) == JobEnd{kT0 + 10min, true});
  struct Row {
    JobEnd told;
    TimePoint end;
    bool ours;
  };
  for (auto const& [told, end, ours] :
       {Row{{kT0 + 9min, true}, kT0 + 9min, true}, Row{{kT0 + 14min, true}, kT0 + 14min, true},
        Row{{kT0 + 893s, false}, kT0 + 893s, false}, Row{{kT0 + 907s, false}, kT0 + 907s, false},
        Row{{kT0 + 911s, true}, kT0 + 900s, false}}) {  // Slurm kills here before that
    auto const adopted = adopt(plan, told);
    CHECK(adopted.end == end);
    CHECK(adopted.ours == ours);
    CHECK(adopted.checkpoint == plan.checkpoint);
  }
  CHECK(adopt(plan, {}).end == plan.end);
  CHECK(adopt(EndPlan{}, JobEnd{kT0 + 1s, true}).ours);
}

TEST_CASE("deadlines: a node that was added has the job's end, but leaves by its own, which it does not tell",
          "[unit]") {
  using rendezvous::JobEnd;
  auto const plan = plan_end(CheckpointSignal{SIGUSR1, 9s}, 10min, {}, kUnix, kT0, true);
  CHECK_FALSE(job_end(plan));
  CHECK(adopt(plan, JobEnd{kT0 + 5min, false}).end == kT0 + 5min);
  CHECK(adopt(plan, JobEnd{kT0 + 20min, false}).end == kT0 + 10min);
  CHECK(adopt(plan, JobEnd{kT0 + 20min, false}).ours);
  auto const without = plan_end(CheckpointSignal{SIGUSR1, 9s}, 0ms, {}, kUnix, kT0, true);
  CHECK(without.notes.empty());
  CHECK(adopt(without, JobEnd{kT0 + 5min, true}).end == kT0 + 5min);
}

TEST_CASE("deadlines: an instant that is adopted later moves the alarm", "[unit]") {
  Driver driver{plan_with(600s, true)};
  CHECK(has(driver.feed(countdown::Tick{}, 0s), countdown::WakeAt{kT0 + 600s}));
  driver.plan = adopt(driver.plan, rendezvous::JobEnd{kT0 + 300s, true});
  CHECK(has(driver.feed(countdown::WorkersRun{}, 10s), countdown::WakeAt{kT0 + 180s}));
  driver.feed(countdown::Tick{}, 180s);
  CHECK(has(driver.feed(countdown::Passed{0}, 180s), countdown::WakeAt{kT0 + 300s}));
  CHECK(has(driver.feed(countdown::Tick{}, 300s), countdown::EndJob{}));
}

TEST_CASE("deadlines: a year from the start is how Slurm writes that a job has no limit", "[unit]") {
  constexpr std::int64_t kDay = 86'400;
  auto const plan = [](std::int64_t began, std::int64_t end) {
    return plan_end(std::nullopt, 0ms, {std::to_string(kUnix + began), std::to_string(kUnix + end)}, kUnix, kT0);
  };
  CHECK_FALSE(plan(0, 365 * kDay).end);
  CHECK_FALSE(plan(-30 * kDay, 335 * kDay).end);  // a later step of that job
  CHECK(plan(-30 * kDay, 334 * kDay).end == kT0 + 334 * 24h);
  CHECK(plan(0, 364 * kDay).end == kT0 + 364 * 24h);
  CHECK_FALSE(plan_end(std::nullopt, 0ms, {"", std::to_string(kUnix + 365 * kDay)}, kUnix, kT0).end);
  CHECK(plan_end(std::nullopt, 3s, {"", std::to_string(kUnix + 365 * kDay)}, kUnix, kT0).ours);
}

TEST_CASE("deadlines: an end of Slurm's that is none has no effect, and a line when it looks wrong", "[unit]") {
  for (auto const& [text, notes] : std::vector<std::pair<std::string, std::size_t>>{
           {"Unknown", 1}, {"-5", 1}, {"12", 1}, {"99999999999999999999", 1}, {"4294967294", 0}, {"0", 0}, {"", 0}}) {
    auto const plan = plan_end(std::nullopt, 0ms, {"", text}, kUnix, kT0);
    CHECK_FALSE(plan.end);
    CHECK(plan.notes.size() == notes);
  }
}

TEST_CASE("deadlines: a checkpoint signal without an end names the option that is missing", "[unit]") {
  auto const plan = plan_end(CheckpointSignal{SIGUSR1, 9s}, 0ms, {}, kUnix, kT0);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes.front().find("--time-limit") != std::string::npos);
}

TEST_CASE("deadlines: a checkpoint signal is late where less time than that was left at the start", "[unit]") {
  auto const late = [](Millis limit) { return plan_end(CheckpointSignal{SIGUSR1, 9s}, limit, {}, kUnix, kT0).late; };
  CHECK(late(8s));
  CHECK(late(9s));
  CHECK_FALSE(late(10s));
  CHECK_FALSE(late(0ms));
  CHECK_FALSE(plan_end(std::nullopt, 8s, {}, kUnix, kT0).late);
}

TEST_CASE("deadlines: the signal goes once to each generation, when it is due", "[unit]") {
  Driver driver{plan_with(600s)};
  CHECK(has(driver.feed(countdown::WorkersRun{}, 0s), countdown::WakeAt{kT0 + 480s}));
  CHECK_FALSE(passes(driver.feed(countdown::Tick{}, 479s)));
  CHECK(passes(driver.feed(countdown::Tick{}, 480s)));
  CHECK(does_nothing(driver.feed(countdown::Passed{0}, 480s)));
  CHECK_FALSE(passes(driver.feed(countdown::Tick{}, 490s)));
  driver.feed(countdown::WorkersEnd{}, 495s);
  auto const again = driver.feed(countdown::WorkersRun{}, 500s);  // a restart: they have work to save as well
  CHECK(passes(again));
  CHECK_FALSE(says(again, "SIGUSR1"));
}

TEST_CASE("deadlines: with less time left than asked for the signal goes as soon as workers run", "[unit]") {
  Driver driver{plan_with(60s)};
  CHECK(does_nothing(driver.feed(countdown::Tick{}, 1s)));
  auto const step = driver.feed(countdown::WorkersRun{}, 2s);
  CHECK(passes(step));
  CHECK(says(step, "only 58 s are left"));
}

TEST_CASE("deadlines: workers without a handler are looked at six times more, then named", "[unit]") {
  Driver driver{plan_with(600s)};
  driver.feed(countdown::WorkersRun{}, 0s);
  REQUIRE(passes(driver.feed(countdown::Tick{}, 480s)));
  Millis at = 480s;
  for (Millis const wait : {1s, 2s, 5s, 10s, 20s, 40s}) {
    REQUIRE(has(driver.feed(countdown::Passed{2}, at), countdown::WakeAt{kT0 + at + wait}));
    at += wait;
    CHECK(passes(driver.feed(countdown::Tick{}, at)));
  }
  CHECK(says(driver.feed(countdown::Passed{2}, at), "2 of the workers here do not catch SIGUSR1"));
  CHECK(does_nothing(driver.feed(countdown::Tick{}, at + 1s)));
}

TEST_CASE("deadlines: who has no handler is said at the first look, and who never got it when they end", "[unit]") {
  Driver driver{plan_with(600s)};
  driver.feed(countdown::WorkersRun{}, 0s);
  REQUIRE(passes(driver.feed(countdown::Tick{}, 480s)));
  CHECK(says(driver.feed(countdown::Passed{2, 2}, 480s), "SIGUSR1 to 0 of 2 workers here: the others have no handler"));
  REQUIRE(passes(driver.feed(countdown::Tick{}, 481s)));
  CHECK_FALSE(says(driver.feed(countdown::Passed{1, 2}, 481s), "SIGUSR1"));
  CHECK(says(driver.feed(countdown::WorkersEnd{}, 482s),
             "1 of the workers here do not catch SIGUSR1 and did not get it"));
  CHECK_FALSE(says(driver.feed(countdown::WorkersEnd{}, 483s), "SIGUSR1"));
  driver.feed(countdown::WorkersRun{}, 484s);
  CHECK_FALSE(says(driver.feed(countdown::Passed{0, 2}, 484s), "SIGUSR1"));
  CHECK_FALSE(says(driver.feed(countdown::WorkersEnd{}, 490s), "SIGUSR1"));
}

TEST_CASE("deadlines: workers that are being stopped get no signal", "[unit]") {
  Driver driver{plan_with(600s)};
  driver.feed(countdown::WorkersRun{}, 0s);
  driver.feed(countdown::WorkersEnd{}, 470s);
  CHECK(does_nothing(driver.feed(countdown::Tick{}, 480s)));
  driver.feed(countdown::WorkersRun{}, 481s);
  driver.feed(countdown::WorkersEnd{}, 481s);
  CHECK(does_nothing(driver.feed(countdown::Passed{1}, 481s)));
}

TEST_CASE("deadlines: after the signal the alarm is set by the answer alone", "[unit]") {
  Driver driver{plan_with(60s, true)};
  auto const step = driver.feed(countdown::WorkersRun{}, 1s);
  REQUIRE(passes(step));
  CHECK(std::holds_alternative<countdown::Pass>(step.actions.back()));
  CHECK(driver.feed(countdown::Passed{1}, 1s).actions == std::vector<countdown::Action>{countdown::WakeAt{kT0 + 2s}});
  CHECK(driver.feed(countdown::Passed{0}, 2s).actions == std::vector<countdown::Action>{countdown::WakeAt{kT0 + 60s}});
}

TEST_CASE("deadlines: only a limit of our own ends the job, once, with or without workers", "[unit]") {
  Driver own{plan_with(600s, true)};
  own.plan.checkpoint.reset();
  CHECK(has(own.feed(countdown::Tick{}, 0s), countdown::WakeAt{kT0 + 600s}));
  CHECK(has(own.feed(countdown::Tick{}, 600s), countdown::EndJob{}));
  CHECK(does_nothing(own.feed(countdown::Tick{}, 601s)));
  Driver slurms{plan_with(600s)};
  CHECK_FALSE(has(slurms.feed(countdown::Tick{}, 601s), countdown::EndJob{}));
}
