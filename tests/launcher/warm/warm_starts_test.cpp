#include "launcher/warm/warm_starts.hpp"

#include <csignal>

#include "tests/support/catch.hpp"
#include "tests/support/said.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace): the unit under test
using namespace cxxrun::launcher::warm;
using namespace std::chrono_literals;
using Actions = std::vector<Action>;

namespace {

constexpr TimePoint kT0{};
Policy const policy{"torch"};
constexpr auto kInstead = "; workers are executed, as without --warm";

Step after(State state, Event const& event, TimePoint now = kT0) {
  return step(std::move(state), event, now, policy);
}

State after_all(std::vector<Event> const& events) {
  State state;
  for (auto const& event : events) {
    state = after(std::move(state), event).next;
  }
  return state;
}

Event const kReady = Reported{{"ready", "812"}};

}  // namespace

TEST_CASE("warm_starts: workers wait for the import, and are forked at once from then on", "[unit]") {
  auto const first = after({}, Wanted{0});
  CHECK(first.actions == Actions{Arm{kT0 + 120s}});
  auto const second = after(first.next, Wanted{1}, kT0 + 1s);
  CHECK(second.actions.empty());  // the time counts from the first worker that waits
  auto const ready = after(second.next, kReady, kT0 + 2s);
  CHECK(ready.actions == Actions{Fork{0}, Fork{1}, Arm{kT0 + 12s}});
  CHECK(text_of(ready.said) == "--warm: torch imported in 812 ms");
  auto const one = after(ready.next, Hello{1, 71});
  CHECK(one.actions == Actions{Admit{1, 71}});
  auto const both = after(one.next, Hello{0, 70});
  CHECK(both.actions == Actions{Admit{0, 70}, Arm{}});
  CHECK(after(both.next, Wanted{0}, kT0 + 9s).actions == Actions{Fork{0}, Arm{kT0 + 19s}});
}

TEST_CASE("warm_starts: an import that nobody waits for has all the time there is", "[unit]") {
  CHECK(after({}, Tick{}, kT0 + 24h).actions.empty());
  CHECK(after({}, kReady).actions.empty());
}

TEST_CASE("warm_starts: whoever is not asked for is not let on", "[unit]") {
  auto const asked = after_all({kReady, Wanted{0}});
  CHECK(after(asked, Hello{1, 71}).actions.empty());
  auto const admitted = after(asked, Hello{0, 70}).next;
  CHECK(after(admitted, Hello{0, 72}).actions.empty());
  CHECK(after(after_all({kReady, Wanted{0}, Cancelled{}}), Hello{0, 70}).actions.empty());
}

TEST_CASE("warm_starts: what keeps the Python from being forked is said, and workers are executed for good", "[unit]") {
  struct Case {
    std::vector<std::string> words;
    std::string said;
  };
  for (auto const& [words, said] :
       {Case{{"threads", "numpy", "3"}, "importing numpy has started threads (3), which a fork does not copy"},
        Case{{"processes", "ray", "1"}, "importing ray has started processes (1), which a fork does not copy"},
        Case{{"device", "torch", "/dev/nvidia0"},
             "importing torch has opened /dev/nvidia0, which a forked process cannot use"},
        Case{{"failed", "torch", "ImportError: x\n\x1b[1m"}, "importing torch has failed (ImportError: x??[1m)"},
        Case{{"failed"}, "importing  has failed ()"}}) {
    auto const given_up = after(after_all({Wanted{0}, Wanted{1}}), Reported{words});
    CHECK(given_up.actions == Actions{Kill{}, Execute{0}, Execute{1}, Arm{}});
    CHECK(text_of(given_up.said) == "--warm: " + said + kInstead);
    CHECK(after(given_up.next, Wanted{0}).actions == Actions{Execute{0}});
    CHECK(text_of(after(given_up.next, Ended{ExitStatus::signalled(SIGKILL)}).said).empty());
  }
}

TEST_CASE("warm_starts: a report that comes twice, or is empty, changes nothing", "[unit]") {
  CHECK(after({}, Reported{}).next == State{});
  auto const ready = after_all({kReady});
  CHECK(after(ready, Reported{{"threads", "x", "1"}}).next == ready);
}

TEST_CASE("warm_starts: a Python that dies executes those that wait; those it has forked go on", "[unit]") {
  auto const importing = after(after_all({Wanted{0}}), Ended{ExitStatus::exited(7)});
  CHECK(importing.actions == Actions{Execute{0}});
  CHECK(text_of(importing.said) ==
        std::string("--warm: the Python that workers are forked from has ended (exit code 7)") + kInstead);
  CHECK(after(importing.next, Wanted{1}).actions == Actions{Execute{1}});
  auto const forked = after(after_all({kReady, Wanted{0}, Wanted{1}}), Ended{ExitStatus::signalled(SIGSEGV)});
  CHECK(forked.actions.empty());
  CHECK(after(forked.next, Hello{0, 70}).actions == Actions{Admit{0, 70}});
  CHECK(after(forked.next, Lost{1}).actions.front() == Action{Execute{1}});
}

TEST_CASE("warm_starts: one fork that comes to nothing is executed, and the next is tried", "[unit]") {
  auto const lost = after(after_all({kReady, Wanted{3}}), Lost{3});
  CHECK(lost.actions == Actions{Execute{3}, Arm{}});
  CHECK(text_of(lost.said) == "--warm: local rank 3 could not be forked, or was killed at once: it is executed");
  CHECK(after(lost.next, Wanted{3}).actions.front() == Action{Fork{3}});
  CHECK(after(lost.next, Lost{3}).actions.empty());
  auto const unopened = after(after_all({kReady, Wanted{3}}), Unopened{3});
  CHECK(unopened.actions == Actions{Arm{}});
}

TEST_CASE("warm_starts: an import, or a fork, that hangs is given up", "[unit]") {
  auto const importing = after_all({Wanted{0}});
  CHECK(after(importing, Tick{}, kT0 + 119s).actions.empty());
  auto const late = after(importing, Tick{}, kT0 + 120s);
  CHECK(late.actions == Actions{Kill{}, Execute{0}, Arm{}});
  CHECK(text_of(late.said) == std::string("--warm: importing torch is not done after 120 s") + kInstead);

  auto const stuck = after(after_all({kReady, Wanted{0}, Wanted{1}, Hello{1, 71}}), Tick{}, kT0 + 10s);
  CHECK(stuck.actions == Actions{Kill{}, Execute{0}, Arm{}});
  CHECK(text_of(stuck.said) == std::string("--warm: a fork is not done after 10 s") + kInstead);
}

TEST_CASE("warm_starts: a stop drops whoever has not begun", "[unit]") {
  auto const importing = after(after_all({Wanted{0}, Wanted{1}}), Cancelled{});
  CHECK(importing.actions == Actions{Drop{0}, Drop{1}, Arm{}});
  auto const asked = after(after_all({kReady, Wanted{0}, Wanted{1}, Hello{0, 70}}), Cancelled{});
  CHECK(asked.actions == Actions{Drop{1}, Arm{}});
  CHECK(after(asked.next, Cancelled{}).actions.empty());
}

TEST_CASE("warm_starts: nothing is late while the node is frozen, and the time begins anew", "[unit]") {
  auto const frozen = after(after_all({kReady, Wanted{0}}), Frozen{true});
  CHECK(frozen.actions == Actions{Arm{}});
  CHECK(after(frozen.next, Tick{}, kT0 + 60s).actions.empty());
  auto const thawed = after(frozen.next, Frozen{false}, kT0 + 60s);
  CHECK(thawed.actions == Actions{Arm{kT0 + 70s}});
  // A generation that is killed while it is frozen is never thawed. The next one is not frozen.
  CHECK_FALSE(after(frozen.next, Wanted{1}).next.frozen);
}
