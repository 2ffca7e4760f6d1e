// Plays every row of the coordinator's table about blame in docs/design/survival.md.
#include "rendezvous/hangs/blame.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"
#include "tests/support/sanitized.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using Why = PeerFailure::Why;

namespace {

using Ended = std::vector<std::uint32_t>;

struct Words {
  std::uint32_t world = 4;
  BlameState state;
  TimePoint now = TimePoint{} + 1h;
  std::vector<BlameOrder> orders;
  bool stop = false;
  std::optional<BlameOrder> blamed{};

  Words& says(std::uint32_t rank, std::uint32_t of, Why why = Why::timeout, bool ended = false) {
    add_report(state, {rank, {of, why}}, ended, world, now);
    return pass(0ms);
  }
  Words& dies(std::uint32_t rank, std::uint32_t of) { return says(rank, of, Why::died, true); }
  Words& pass(Millis time) {
    now += time;
    auto const judged = judge_blame(state, world, now);
    orders = judged.orders;
    stop = judged.stop;
    blamed = judged.most_blamed;
    return *this;
  }
  [[nodiscard]] Ended ended() const {
    Ended ranks;
    for (auto const& order : orders) {
      ranks.push_back(order.rank);
    }
    return ranks;
  }
  [[nodiscard]] bool nothing() const { return orders.empty() && !stop && !blamed; }
  /// No rank is killed and nothing stops, now or at any later timer.
  [[nodiscard]] bool quiet() {
    while (nothing() && state.due) {
      pass(std::chrono::duration_cast<Millis>(*state.due - now));
    }
    return nothing();
  }
};

std::map<std::string, std::function<void()>> rows() {
  return {
      {"nothing | – | –", [] { CHECK(Words{}.pass(0ms).quiet()); }},
      {"all others name one | it | –",
       [] {
         Words words;
         CHECK(words.says(0, 3).says(1, 3).orders.empty());
         words.says(2, 3);
         CHECK(words.orders == std::vector<BlameOrder>{{3, Why::timeout, "did not arrive in time for 3 others"}});
         CHECK_FALSE(words.stop);
       }},
      {"all others name two | both | –",
       [] {
         CHECK(Words{}.says(0, 3).says(1, 2).ended() == Ended{2, 3});
       }},
      {"one names another, the rest have not reported | – | –", [] { CHECK(Words{}.says(0, 3).quiet()); }},
      {"most of the others name one, for 1 s | it | –",
       [] {
         Words words;
         CHECK(words.says(0, 3, Why::left).says(1, 3, Why::left).pass(999ms).orders.empty());
         CHECK(words.pass(1ms).ended() == Ended{3});
         CHECK(words.orders.front().why == "left while 2 others still called");
         CHECK_FALSE(words.stop);
       }},
      {"half of the others name one, for 1 s | – | –",
       [] {
         Words words;
         words.world = 5;
         CHECK(words.says(0, 4).says(1, 4).quiet());
       }},
      {"the two sides of a cut name each other | – | at once",
       [] {
         Words words;
         CHECK(words.says(0, 2, Why::lost).says(2, 0, Why::lost).says(1, 2).nothing());
         words.says(3, 0);
         CHECK(words.blamed == BlameOrder{0, Why::lost, "lost its connection to 2 others"});
         CHECK(words.orders.empty());
       }},
      {"one is named, and then reports itself | – | when all have reported, else after 1 s",
       [] {
         Words words;
         CHECK(words.says(0, 3).says(3, 0).says(1, 3).nothing());
         words.says(2, 3);
         CHECK(words.blamed == BlameOrder{3, Why::timeout, "did not arrive in time for 3 others"});
         words = {};
         CHECK(words.says(0, 3).says(3, 0).pass(999ms).nothing());
         CHECK(words.pass(1ms).blamed);
       }},
      {"one is named, and waits like the others, without a name | – | the same",
       [] {
         Words silent;
         add_report(silent.state, {3, worker::kNamesNobody}, false, silent.world, silent.now);
         Words words = silent;
         CHECK(words.says(0, 3).says(1, 3).nothing());
         CHECK(words.says(2, 3).blamed == BlameOrder{3, Why::timeout, "did not arrive in time for 3 others"});
         words = silent;
         CHECK(words.says(0, 3).pass(999ms).nothing());
         CHECK(words.pass(1ms).blamed);
         words = silent;  // 1 waits for it, and others for 1
         CHECK(words.says(1, 3).says(0, 1).says(2, 1).blamed->rank == 3);
       }},
      {"one names another, which names a third in its own group | the third, when all others have reported | –",
       [] {
         Words words;
         CHECK(words.says(0, 2).says(1, 3).ended() == Ended{2, 3});  // their agents see that 2 waits
         words = {};
         CHECK(words.says(2, 3).says(0, 2).orders.empty());
         words.says(1, 3);
         CHECK(words.orders == std::vector<BlameOrder>{{3, Why::timeout, "did not arrive in time for 3 others"}});
         words = {};
         words.world = 8;
         words.says(0, 1).says(1, 2).says(2, 3).says(4, 0);
         CHECK(words.pass(1s).ended() == Ended{3});
       }},
      {"one that ended names one that has not | – | after 200 ms, unless a culprit's end comes first",
       [] {
         Words words;
         CHECK_FALSE(words.dies(0, 3).pass(199ms).stop);
         CHECK(words.state.due);
         CHECK(words.pass(1ms).stop);
         CHECK(words.orders.empty());
       }},
      {"all others ended and name one | it | after 200 ms, unless a culprit's end comes first",
       [] {
         Words words;
         CHECK(words.dies(0, 3).dies(1, 3).dies(2, 3).ended() == Ended{3});
         CHECK_FALSE(words.stop);
         CHECK(words.pass(200ms).stop);
       }},
      {"one that ended names one that has reported | – | at once", [] { CHECK(Words{}.says(3, 0).dies(0, 3).stop); }},
      {"one outside the world is named | – | –", [] { CHECK(Words{}.says(0, 4).says(1, 4).says(2, 4).quiet()); }},
      {"the same again | ordered once | –",
       [] {
         Words words;
         words.says(0, 3).says(1, 3).says(2, 3).says(2, 3);
         CHECK(words.orders.empty());
       }},
  };
}

/// The same rules, written plainly and without regard to cost: each question walks every chain again.
struct Plain {
  struct End {
    worker::Loss last;
    bool spoke = false;
  };
  struct Tally {
    std::size_t by = 0;
    Why why = Why::died;
  };

  std::uint32_t world;
  std::map<std::uint32_t, worker::Loss> words{};
  std::set<std::uint32_t> ordered{};
  std::optional<TimePoint> since{};
  std::optional<TimePoint> first_end{};

  void add_report(Named const& named, bool ended, TimePoint now) {
    words.try_emplace(named.rank, named.lost);
    since = since.value_or(now);
    first_end = ended ? first_end.value_or(now) : first_end;
  }
  [[nodiscard]] End end_of(worker::Loss const& first) const {
    auto last = first;
    for (std::size_t steps = 0; steps < words.size(); ++steps) {
      auto const next = words.find(last.rank);
      if (next == words.end() || next->second.rank >= world) {
        return {last, next != words.end()};
      }
      last = next->second;
    }
    return {first, true};  // a circle
  }
  [[nodiscard]] std::map<std::uint32_t, Tally> named(bool spoke) const {
    std::map<std::uint32_t, Tally> found;
    for (auto const& [speaker, lost] : words) {
      auto const end = end_of(lost);
      if (end.last.rank < world && end.spoke == spoke) {
        ++found.try_emplace(end.last.rank, Tally{0, end.last.why}).first->second.by;
      }
    }
    return found;
  }
  [[nodiscard]] bool same(BlameOrder const& order, std::uint32_t rank, Tally const& tally) const {
    return order.rank == rank && order.reason == tally.why &&
           order.why.find(counted(tally.by, "other")) != order.why.npos;
  }
  /// What differs from these rules; "" if nothing does.
  std::string differs(BlameJudgement const& judged, TimePoint now) {
    auto const blamed = named(false);
    bool const all_spoke = words.size() + blamed.size() >= world;
    bool const end_passed = first_end && now - *first_end >= kExitWindow;
    bool const settled = (since && now - *since >= kReportWindow) || end_passed;
    std::size_t orders = 0;
    for (auto const& [rank, tally] : blamed) {
      bool const due = all_spoke || (settled && 2 * tally.by > world - 1);
      if (due && orders < 8 && ordered.insert(rank).second &&
          (judged.orders.size() <= orders || !same(judged.orders[orders++], rank, tally))) {
        return "orders";
      }
    }
    auto const waiting = named(true);
    auto const most = std::max_element(waiting.begin(), waiting.end(),
                                       [](auto const& a, auto const& b) { return a.second.by < b.second.by; });
    bool const blames = !first_end && blamed.empty() && (all_spoke || settled) && most != waiting.end();
    return judged.orders.size() != orders                                    ? "more orders"
           : judged.stop != (first_end && (blamed.empty() || end_passed))    ? "stop"
           : judged.most_blamed.has_value() != blames                        ? "whether one is blamed"
           : blames && !same(*judged.most_blamed, most->first, most->second) ? "who is blamed"
                                                                             : "";
  }
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(engine_() % count); }

 private:
  std::mt19937_64 engine_;
};

/// Reports in any order, one or several at a time. They blame ranks at random (circles, none, outside the world), the
/// next rank (chains), or one of the first two.
std::string play(std::uint64_t seed) {
  Random random(seed);
  std::uint32_t const world = 1 + random.below(random.below(4) == 0 ? 40 : 8);
  std::uint32_t const names = random.below(3);
  bool const some_end = random.below(2) == 0;
  Plain plain{world};
  BlameState state;
  TimePoint now = TimePoint{} + 1h;
  for (std::uint32_t step = 0; step < 3 * world; ++step) {
    for (auto count = 1 + random.below(3); count > 0; --count) {
      auto const rank = random.below(world);
      auto const of = names == 0 ? random.below(world + 1) : names == 1 ? rank + 1 : random.below(2);
      worker::Loss const lost{of, std::array{Why::died, Why::timeout, Why::left, Why::lost}.at(random.below(4))};
      Named const named{rank, random.below(16) == 0 ? worker::kNamesNobody : lost};
      bool const ended = some_end && random.below(4) == 0;
      add_report(state, named, ended, world, now);
      plain.add_report(named, ended, now);
    }
    if (random.below(8) == 0) {
      auto const first = random.below(world);
      order_again(state, first, 2);
      std::erase_if(plain.ordered, [&](std::uint32_t rank) { return rank == first || rank == first + 1; });
    }
    now += std::array{0ms, 1ms, 90ms, 400ms}.at(random.below(4));
    auto const judged = judge_blame(state, world, now);
    if (auto const what = plain.differs(judged, now); !what.empty()) {
      return what + ", seed " + std::to_string(seed) + ", step " + std::to_string(step);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("blame: every row of the coordinator's table in docs/design/survival.md is what happens", "[unit]") {
  auto const table = cxxrun::testing::documented_table("design/survival.md", "| what is said |");
  std::vector<std::string> documented;
  for (std::size_t i = 1; i < table.size(); ++i) {
    documented.push_back(join(table[i], " | "));
  }
  cxxrun::testing::check_rows(documented, rows());
}

TEST_CASE("blame: the page says who is a victim, and words do only where it says nothing", "[unit]") {
  WorkerExit exit;
  exit.rank = 1;
  exit.status = ExitStatus::exited(75);
  CHECK(role_of(exit, Role::told_to_end) == Role::told_to_end);
  exit.lost = worker::Loss{3, Why::timeout};
  CHECK(role_of(exit, Role::culprit) == Role::waited);
  exit.lost->why = Why::left;
  CHECK(role_of(exit, Role::culprit) == Role::lost_peer);
  exit.status = ExitStatus::signalled(SIGKILL);  // no peer has brought that about
  CHECK(role_of(exit, Role::culprit) == Role::culprit);
  exit.status = ExitStatus::exited(75);
  exit.lost->rank = 1;  // given up by the others
  CHECK(role_of(exit, Role::waited) == Role::culprit);
  exit.lost.reset();
  exit.status = ExitStatus::exited(0);
  CHECK_FALSE(fails_for_a_peer(exit));
}

TEST_CASE("blame: chains that are kept end where chains end that are followed anew each time", "[unit]") {
  for (std::uint64_t seed = 0; seed < (cxxrun::test::kSanitized ? 1'000 : 10'000); ++seed) {
    auto const differs = play(seed);
    CAPTURE(differs);
    REQUIRE(differs.empty());
  }
}
