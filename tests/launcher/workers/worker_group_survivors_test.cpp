// Surviving workers: which ones a stop keeps, and what happens to them.
#include <cerrno>
#include <csignal>

#include "tests/launcher/workers/group_steps.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;
using namespace cxxrun::launcher::testing;
using namespace std::chrono_literals;
using cxxrun::ExitStatus;

namespace {

// Worker 0 survives, worker 1 does not.
GroupState one_survives(std::vector<GroupEvent> const& more = {}) {
  auto state = two_running();
  state = step(std::move(state), Survives{0}, kT0).next;
  for (auto const& event : more) {
    state = step(std::move(state), event, kT0).next;
  }
  return state;
}

GroupState waiting() {
  return one_survives(
      {StopOrdered{parking()}, Exited{1, ExitStatus::signalled(SIGTERM)}, HasParked{0}, DescendantsGone{}});
}

}  // namespace

TEST_CASE("worker_group: a stop that keeps tells those that survive, and signals the others", "[unit]") {
  auto const stopped = step(one_survives(), StopOrdered{parking()}, kT0);
  CHECK(stopped.actions == Actions{TellOver{}, AskWorker{1, SIGTERM}, ArmTimer{kT0 + 5s}});
  CHECK(keeps(stopped.next, stopped.next.workers[0]));
  CHECK_FALSE(keeps(stopped.next, stopped.next.workers[1]));

  auto const due = step(stopped.next, Tick{}, kT0 + 5s);
  CHECK(due.actions == Actions{KillGroup{0}, KillGroup{1}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});
  CHECK_FALSE(keeps(due.next, due.next.workers[0]));
  CHECK(step(due.next, HasParked{0}, kT0).next == due.next);  // too late
  CHECK(step(due.next, Exited{0, ExitStatus::signalled(SIGKILL)}, kT0).next.workers[0].ours);
}

TEST_CASE("worker_group: a generation has ended when each worker has ended or is parked", "[unit]") {
  auto state = one_survives({StopOrdered{parking()}, HasParked{0}});
  CHECK(state.phase == GroupPhase::stopping);
  state = step(std::move(state), Exited{1, ExitStatus::signalled(SIGTERM)}, kT0).next;
  CHECK(state.phase == GroupPhase::sweeping);
  CHECK(step(state, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});

  auto const early = one_survives({HasParked{0}, Exited{1, ExitStatus::exited(0)}});
  CHECK(early.phase == GroupPhase::running);  // no stop was ordered yet
  CHECK(step(early, StopOrdered{parking()}, kT0).next.phase == GroupPhase::sweeping);
}

TEST_CASE("worker_group: the next generation resumes who waits, and starts the others", "[unit]") {
  auto const begun = step(waiting(), Begin{2}, kT0);
  CHECK(begun.actions == Actions{ResumeWorker{0}});
  CHECK(begun.next.workers[0].life == GroupWorker::Life::alive);
  CHECK(begun.next.workers[0].pid == 10);
  CHECK(begun.next.workers[0].survives);
  CHECK(begun.next.workers[1].life == GroupWorker::Life::pending);
  CHECK_FALSE(begun.next.stop_ordered);

  auto const failed = step(begun.next, ResumeFailed{0}, kT0).next;
  CHECK(failed.workers[0] == GroupWorker{});
  CHECK(step(failed, Started{0, 20}, kT0).next.workers[0].pid == 20);
}

TEST_CASE("worker_group: one that dies while it waits is forgotten, and one that is not wanted ends", "[unit]") {
  auto const dead = step(waiting(), Exited{0, ExitStatus::signalled(SIGSEGV)}, kT0);
  CHECK(dead.actions.empty());
  CHECK(step(dead.next, Begin{2}, kT0).actions.empty());
  CHECK(step(waiting(), Begin{0}, kT0).actions == Actions{EndSurplus{10}, ReportEnded{}});
}

TEST_CASE("worker_group: the end of the job reaches those that wait, and reports no exit of theirs", "[unit]") {
  auto const stopped = step(waiting(), StopOrdered{order(5s)}, kT0);
  CHECK(stopped.actions == Actions{TellEnds{}, AskWorker{0, SIGTERM}, ArmTimer{kT0 + 5s}});
  auto const ended = step(stopped.next, Exited{0, ExitStatus::exited(0)}, kT0);
  CHECK(ended.actions == Actions{SignalDescendants{SIGTERM}, ArmTimer{kT0 + 500ms}});
  CHECK(step(ended.next, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
  CHECK(step(stopped.next, Tick{}, kT0 + 5s).actions ==
        Actions{KillGroup{0}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});

  auto const forgotten = step(waiting(), Exited{0, ExitStatus::exited(0)}, kT0).next;
  auto const nobody = step(forgotten, StopOrdered{order(5s)}, kT0).next;  // the event has an answer all the same
  CHECK(nobody.phase == GroupPhase::sweeping);
  CHECK(step(nobody, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
}

TEST_CASE("worker_group: an order that keeps nobody, in the middle of one that keeps", "[unit]") {
  auto const keeping = one_survives({StopOrdered{parking()}});
  auto const one = step(keeping, StopOrdered{order(30s)}, kT0 + 1s);
  CHECK(one.actions == Actions{TellEnds{}, AskWorker{0, SIGTERM}, ArmTimer{kT0 + 31s}});  // worker 1 has got it already
  CHECK(step(one.next, HasParked{0}, kT0).next == one.next);
  CHECK(step(one.next, StopOrdered{parking()}, kT0 + 1s).next.parks == false);

  auto const parked = step(keeping, HasParked{0}, kT0).next;
  CHECK(step(parked, StopOrdered{order(30s)}, kT0).next.workers[0].life == GroupWorker::Life::alive);
  auto const now = step(parked, StopOrdered{order(0s)}, kT0);
  CHECK(now.next.phase == GroupPhase::killing);
  CHECK(now.actions ==
        Actions{TellEnds{}, KillGroup{0}, KillGroup{1}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 60s}});
}

TEST_CASE("worker_group: whoever survives SIGKILL is given up, and those that wait are kept", "[unit]") {
  auto state = one_survives({StopOrdered{parking()}, HasParked{0}});
  state = step(std::move(state), Tick{}, kT0 + 5s).next;
  auto const given_up = step(std::move(state), Tick{}, kT0 + 65s);
  CHECK(given_up.actions == Actions{ReportUnkillable{}, ReportEnded{}});
  CHECK(given_up.next.phase == GroupPhase::parked);
  CHECK(given_up.next.workers[0].life == GroupWorker::Life::parked);
}

namespace {

GroupWorker pending(std::uint32_t local_rank) {
  GroupWorker worker;
  worker.local_rank = local_rank;
  return worker;
}

// Both shrink; worker 0 has parked, worker 1 was killed.
GroupState lacking() {
  return after({Begin{2}, Started{0, 10}, Started{1, 11}, Survives{0, true}, Survives{1, true},
                Exited{1, ExitStatus::signalled(SIGKILL)}, StopOrdered{parking()}, HasParked{0}, DescendantsGone{}});
}

}  // namespace

TEST_CASE("worker_group: others need not wait for a node whose workers have all said so, and one has ended", "[unit]") {
  CHECK(lacks(lacking()));
  CHECK_FALSE(lacks(waiting()));  // worker 1 does not shrink
  CHECK_FALSE(lacks(after({Begin{1}, Started{0, 10}, Survives{0, true}, StopOrdered{parking()}, HasParked{0}})));
  CHECK(lacks(after({Begin{1}, Started{0, 10}, Survives{0, true}, Exited{0, ExitStatus::signalled(SIGKILL)}})));
  auto const resumed = step(lacking(), Begin{2}, kT0).next;  // it does not register again
  CHECK(resumed.workers[0].shrinks);
  CHECK_FALSE(resumed.workers[1].shrinks);
}

TEST_CASE("worker_group: what is missing starts, waits like the others, and is of the next generation", "[unit]") {
  auto const begun = step(lacking(), Fill{}, kT0);
  CHECK(begun.actions == Actions{TellOver{}});
  CHECK(begun.next.phase == GroupPhase::parked);
  CHECK(begun.next.workers[1] == pending(1));
  auto const started = step(begun.next, Started{1, 20}, kT0);
  CHECK(started.actions.empty());  // no stop signal for it
  auto const here = step(started.next, Survives{1, true}, kT0);
  auto const whole = step(here.next, HasParked{1}, kT0);
  CHECK(whole.actions == Actions{ReportFilled{true}});
  CHECK(step(whole.next, Begin{2}, kT0).actions == Actions{ResumeWorker{0}, ResumeWorker{1}});

  auto const alone = after({Begin{1}, Started{0, 10}, Survives{0, true}, Exited{0, ExitStatus::exited(3)},
                            DescendantsGone{}, Fill{}, Started{0, 20}, Survives{0, true}});
  CHECK(alone.phase == GroupPhase::parked);
  CHECK(step(alone, HasParked{0}, kT0).actions == Actions{ReportFilled{true}});
  CHECK(step(two_running(), Fill{}, kT0).next == two_running());
}

TEST_CASE("worker_group: one that ends while what is missing starts is told of once, and is no failure", "[unit]") {
  auto const filling = step(step(lacking(), Fill{}, kT0).next, Started{1, 20}, kT0).next;
  auto const died = step(filling, Exited{1, ExitStatus::exited(1)}, kT0);
  CHECK(died.actions == Actions{ReportFilled{false}});
  CHECK(step(died.next, Exited{0, ExitStatus::exited(1)}, kT0).actions.empty());
  CHECK(step(died.next, Begin{2}, kT0).actions == Actions{ResumeWorker{0}});
  CHECK(step(step(lacking(), Fill{}, kT0).next, StartFailed{1, ENOENT}, kT0).actions == Actions{ReportFilled{false}});
}

TEST_CASE("worker_group: one that is on its way when the next generation starts is started anew with it", "[unit]") {
  auto const filling = step(step(lacking(), Fill{}, kT0).next, Started{1, 20}, kT0).next;
  auto const begun = step(filling, Begin{2}, kT0);
  CHECK(begun.actions == Actions{ResumeWorker{0}, EndSurplus{20}});
  CHECK(begun.next.workers[1] == pending(1));
  CHECK(begun.next.workers[0].pid == 10);
}

TEST_CASE("worker_group: a stop that keeps nobody ends those that are on their way, too", "[unit]") {
  auto const filling = step(step(lacking(), Fill{}, kT0).next, Started{1, 20}, kT0).next;
  CHECK(step(filling, StopOrdered{parking()}, kT0).next == filling);
  auto const stopped = step(filling, StopOrdered{order(5s)}, kT0);
  CHECK(stopped.actions == Actions{TellEnds{}, AskWorker{0, SIGTERM}, AskWorker{1, SIGTERM}, ArmTimer{kT0 + 5s}});
  CHECK(step(stopped.next, HasParked{1}, kT0).next == stopped.next);
}
