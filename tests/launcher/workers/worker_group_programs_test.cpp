// Workers whose first process is a wrapper, which may end before the program behind it.
#include <csignal>

#include "tests/launcher/workers/group_steps.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;
using namespace cxxrun::launcher::testing;
using namespace std::chrono_literals;
using cxxrun::ExitStatus;

TEST_CASE("worker_group: a program that outlives its wrapper has the whole grace, and what it leaves has not",
          "[unit]") {
  auto const stopping = step(two_running(), StopOrdered{order(5s)}, kT0).next;
  auto const one = step(stopping, Exited{1, ExitStatus::exited(0)}, kT0).next;
  auto const wrapper = step(one, Exited{0, ExitStatus::signalled(SIGTERM), false, true}, kT0);
  CHECK(wrapper.actions == Actions{ReportExit{0}});
  CHECK(wrapper.next.phase == GroupPhase::stopping);
  CHECK(wrapper.next.deadline == kT0 + 5s);
  CHECK(wrapper.next.workers[0].ours);
  CHECK(spares(wrapper.next, 10));
  CHECK(step(wrapper.next, DescendantsGone{}, kT0).next.phase == GroupPhase::stopping);

  auto const saved = step(wrapper.next, ProgramEnded{0}, kT0 + 2s);
  CHECK(saved.actions == Actions{SignalDescendants{SIGTERM}, ArmTimer{kT0 + 2500ms}});
  CHECK(step(saved.next, ProgramEnded{0}, kT0).actions.empty());
  CHECK(step(saved.next, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});

  auto const late = step(wrapper.next, Tick{}, kT0 + 5s);
  CHECK(late.actions == Actions{SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});
  CHECK(step(late.next, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
}

TEST_CASE("worker_group: a program whose wrapper was killed by others is asked when a stop is ordered", "[unit]") {
  auto const failed = step(two_running(), Exited{0, ExitStatus::signalled(SIGTERM), false, true}, kT0);
  CHECK(failed.next.phase == GroupPhase::running);
  CHECK_FALSE(failed.next.workers[0].ours);
  auto const stopped = step(failed.next, StopOrdered{order(5s)}, kT0);
  CHECK(stopped.actions == Actions{TellEnds{}, AskWorker{0, SIGTERM}, AskWorker{1, SIGTERM}, ArmTimer{kT0 + 5s}});
  auto const killed = step(failed.next, StopOrdered{order(0s)}, kT0);
  CHECK(killed.actions == Actions{TellEnds{}, KillGroup{1}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 60s}});
}
