#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "launcher/workers/worker_group_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/said.hpp"

using namespace cxxrun::launcher;
using namespace std::chrono_literals;
using cxxrun::ExitStatus;
using cxxrun::TimePoint;

namespace {

using Actions = std::vector<GroupAction>;

TimePoint const kT0{};

// A group that has seen these events, all at kT0.
GroupState after(std::vector<GroupEvent> const& events) {
  GroupState state;
  for (auto const& event : events) {
    state = step(std::move(state), event, kT0).next;
  }
  return state;
}

GroupState two_running() {
  return after({Begin{2}, Started{0, 10}, Started{1, 11}});
}

StopOrder order(std::chrono::milliseconds grace) {
  return {SIGTERM, true, grace, 60s};
}

StopOrder parking() {
  StopOrder one = order(5s);
  one.park = true;
  return one;
}

std::vector<std::string> cells(std::string const& row) {
  std::vector<std::string> out;
  std::istringstream stream(row.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    auto const from = cell.find_first_not_of(' ');
    auto const to = cell.find_last_not_of(' ');
    out.push_back(from == std::string::npos ? "" : cell.substr(from, to - from + 1));
  }
  return out;
}

// docs/design/supervision.md: phase → event → next phase; of the table whose first column has this head.
std::map<std::string, std::map<std::string, std::string>> documented_table(std::string const& head) {
  std::ifstream file(CXXRUN_SOURCE_DIR "/docs/design/supervision.md");
  std::map<std::string, std::map<std::string, std::string>> table;
  std::vector<std::string> header;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("| " + head + " |")) {
      header = cells(line);
    } else if (!header.empty() && line.starts_with("| ")) {
      auto const row = cells(line);
      for (std::size_t i = 1; i < header.size(); ++i) {
        table[row[0]][header[i]] = row.at(i);
      }
    } else if (!header.empty() && !line.starts_with("|-")) {
      break;
    }
  }
  return table;
}

struct Happening {
  std::string name;
  GroupEvent event;
  TimePoint at;
};

std::vector<Happening> const kHappenings{
    {"Begin", Begin{1}, kT0},
    {"Started", Started{0, 10}, kT0},
    {"StartFailed", StartFailed{0, ENOENT}, kT0},
    {"Exited", Exited{0, ExitStatus::exited(1)}, kT0},
    {"StopOrdered", StopOrdered{order(5s)}, kT0},
    {"StopOrdered, grace 0", StopOrdered{order(0s)}, kT0},
    {"KillOrdered", KillOrdered{0}, kT0},
    {"DescendantsFound", DescendantsFound{}, kT0},
    {"DescendantsGone", DescendantsGone{}, kT0},
    {"Tick, early", Tick{}, kT0},
    {"Tick, due", Tick{}, kT0 + 120s},
};

std::map<std::string, GroupState> one_of_each_phase() {
  std::vector<GroupEvent> const running{Begin{1}, Started{0, 10}};
  auto with = [&](std::vector<GroupEvent> const& more) {
    auto events = running;
    events.insert(events.end(), more.begin(), more.end());
    return after(events);
  };
  return {{"idle", {}},
          {"running", after(running)},
          {"stopping", with({StopOrdered{order(5s)}})},
          {"killing", with({StopOrdered{order(0s)}})},
          {"sweeping", with({Exited{0, ExitStatus::exited(0)}})},
          {"parked", with({Survives{0}, HasParked{0}, StopOrdered{parking()}, DescendantsGone{}})},
          {"ended", with({Exited{0, ExitStatus::exited(0)}, DescendantsGone{}})}};
}

}  // namespace

TEST_CASE("worker_group: every event in every phase does what the table says", "[unit]") {
  auto const table = documented_table("phase");
  REQUIRE(table.size() == 7);

  for (auto const& [phase, state] : one_of_each_phase()) {
    REQUIRE(phase == phase_name(state.phase));
    for (auto const& happening : kHappenings) {
      auto const made = step(state, happening.event, happening.at);
      std::string const documented = table.at(phase).at(happening.name);
      INFO(phase << " × " << happening.name << ": " << text_of(made.said));
      CHECK(phase_name(made.next.phase) == (documented == "-" ? phase : documented));
      if (documented == "-") {
        CHECK((made.actions.empty() && made.next == state));
      }
    }
  }
}

TEST_CASE("worker_group: one that survives does what its table says", "[unit]") {
  auto const table = documented_table("survivor");
  auto with = [](std::vector<GroupEvent> const& more) {
    std::vector<GroupEvent> events{Begin{1}, Started{0, 10}, Survives{0}};
    events.insert(events.end(), more.begin(), more.end());
    return after(events);
  };
  auto killing = step(with({StopOrdered{parking()}}), Tick{}, kT0 + 5s).next;
  std::map<std::string, GroupState> const states{
      {"running", with({})},
      {"running, parked early", with({HasParked{0}})},
      {"stopping", with({StopOrdered{parking()}})},
      {"killing", killing},
      {"sweeping, parked", with({HasParked{0}, StopOrdered{parking()}})},
      {"parked", with({HasParked{0}, StopOrdered{parking()}, DescendantsGone{}})},
  };
  std::vector<Happening> const happenings{
      {"Survives", Survives{0}, kT0},
      {"HasParked", HasParked{0}, kT0},
      {"ResumeFailed", ResumeFailed{0}, kT0},
      {"Exited", Exited{0, ExitStatus::exited(1)}, kT0},
      {"StopOrdered, park", StopOrdered{parking()}, kT0},
      {"StopOrdered", StopOrdered{order(5s)}, kT0},
      {"DescendantsGone", DescendantsGone{}, kT0},
      {"Tick, due", Tick{}, kT0 + 120s},
  };
  REQUIRE(table.size() == states.size());
  for (auto const& [name, state] : states) {
    std::string const phase(phase_name(state.phase));
    REQUIRE(name.starts_with(phase));
    for (auto const& happening : happenings) {
      auto const made = step(state, happening.event, happening.at);
      std::string const documented = table.at(name).at(happening.name);
      INFO(name << " × " << happening.name << ": " << text_of(made.said));
      CHECK(phase_name(made.next.phase) == (documented == "-" ? phase : documented));
      if (documented == "-") {
        CHECK((made.actions.empty() && made.next == state));
      }
    }
  }
}

TEST_CASE("worker_group: a stop signals every group and the escaped, and arms the deadline", "[unit]") {
  auto const stopped = step(two_running(), StopOrdered{order(5s)}, kT0 + 1s);

  CHECK(stopped.actions == Actions{TellEnds{}, SignalGroup{0, SIGTERM}, SignalGroup{1, SIGTERM},
                                   SignalDescendants{SIGTERM}, ArmTimer{kT0 + 6s}});
}

TEST_CASE("worker_group: at the deadline only those still alive are killed", "[unit]") {
  auto state = two_running();
  state = step(state, StopOrdered{order(5s)}, kT0).next;
  state = step(state, Exited{0, ExitStatus::signalled(SIGTERM)}, kT0).next;

  auto const due = step(state, Tick{}, kT0 + 5s);

  CHECK(due.next.phase == GroupPhase::killing);
  CHECK(due.actions == Actions{SignalGroup{1, SIGKILL}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});
}

TEST_CASE("worker_group: an order without a signal sends none before SIGKILL", "[unit]") {
  StopOrder silent = order(5s);
  silent.send_signal = false;

  auto const stopped = step(two_running(), StopOrdered{silent}, kT0);

  CHECK(stopped.actions == Actions{TellEnds{}, ArmTimer{kT0 + 5s}});
  CHECK(step(stopped.next, DescendantsFound{}, kT0).actions.empty());
  CHECK(step(stopped.next, Exited{0, ExitStatus::signalled(SIGTERM)}, kT0).next.workers[0].ours);
  CHECK(step(stopped.next, Tick{}, kT0 + 5s).next.phase == GroupPhase::killing);
}

TEST_CASE("worker_group: only a shorter grace is news", "[unit]") {
  auto const stopping = step(two_running(), StopOrdered{order(30s)}, kT0).next;

  CHECK(step(stopping, StopOrdered{order(60s)}, kT0).actions.empty());
  CHECK(step(stopping, StopOrdered{order(5s)}, kT0).actions == Actions{ArmTimer{kT0 + 5s}});
}

TEST_CASE("worker_group: a signal that a silent order left out can be ordered later, once", "[unit]") {
  auto silent = order(30s);
  silent.send_signal = false;
  auto const silently = step(two_running(), StopOrdered{silent}, kT0).next;
  auto const signalled = step(silently, StopOrdered{order(30s)}, kT0);
  CHECK(signalled.actions == Actions{SignalGroup{0, SIGTERM}, SignalGroup{1, SIGTERM}, SignalDescendants{SIGTERM}});
  CHECK(step(signalled.next, StopOrdered{order(30s)}, kT0).actions.empty());
}

TEST_CASE("worker_group: an exit is ours when our stop explains it", "[unit]") {
  auto exit_after = [](std::vector<GroupEvent> const& events, ExitStatus status) {
    auto state = two_running();
    for (auto const& event : events) {
      state = step(std::move(state), event, kT0).next;
    }
    return step(std::move(state), Exited{1, status}, kT0).next.workers[1].ours;
  };
  GroupEvent const stop = StopOrdered{order(5s)};
  GroupEvent const kill = StopOrdered{order(0s)};

  CHECK_FALSE(exit_after({}, ExitStatus::exited(1)));
  CHECK_FALSE(exit_after({}, ExitStatus::signalled(SIGTERM)));
  CHECK(exit_after({stop}, ExitStatus::signalled(SIGTERM)));
  CHECK(exit_after({stop}, ExitStatus::exited(143)));
  CHECK_FALSE(exit_after({stop}, ExitStatus::signalled(SIGKILL)));
  CHECK_FALSE(exit_after({stop}, ExitStatus::signalled(SIGSEGV)));
  CHECK(exit_after({stop, kill}, ExitStatus::signalled(SIGKILL)));
  CHECK(exit_after({stop, kill}, ExitStatus::signalled(SIGTERM)));
  CHECK_FALSE(exit_after({kill}, ExitStatus::signalled(SIGTERM)));
}

TEST_CASE("worker_group: a SIGKILL that came after another's does not make the death ours", "[unit]") {
  auto const killed = step(two_running(), StopOrdered{order(0s)}, kT0).next;
  auto const ours = [&](ExitStatus status) { return step(killed, Exited{1, status, true}, kT0).next.workers[1].ours; };

  CHECK_FALSE(ours(ExitStatus::signalled(SIGKILL)));
  CHECK(ours(ExitStatus::exited(1)));
}

TEST_CASE("worker_group: an exit before the order stays as it was", "[unit]") {
  auto state = step(two_running(), Exited{1, ExitStatus::exited(1)}, kT0).next;
  state = step(std::move(state), StopOrdered{order(5s)}, kT0).next;
  state = step(std::move(state), Exited{1, ExitStatus::signalled(SIGTERM)}, kT0).next;

  CHECK(state.workers[1].status == ExitStatus::exited(1));
  CHECK_FALSE(state.workers[1].ours);
}

TEST_CASE("worker_group: leftovers of a natural end get SIGTERM, then SIGKILL after a second", "[unit]") {
  auto const first = step(two_running(), Exited{0, ExitStatus::exited(0)}, kT0);
  CHECK(first.actions == Actions{ReportExit{0}});

  auto const last = step(first.next, Exited{1, ExitStatus::exited(0)}, kT0);
  CHECK(last.actions == Actions{ReportExit{1}, SignalDescendants{SIGTERM}, ArmTimer{kT0 + 1s}});
  CHECK(step(last.next, DescendantsFound{}, kT0).actions == Actions{SignalDescendants{SIGTERM}});
  CHECK(step(last.next, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
  CHECK(step(last.next, Tick{}, kT0 + 1s).actions == Actions{SignalDescendants{SIGKILL}, ArmTimer{kT0 + 61s}});
}

TEST_CASE("worker_group: after a stop the escaped keep the order's deadline", "[unit]") {
  auto state = step(two_running(), StopOrdered{order(30s)}, kT0).next;
  state = step(std::move(state), Exited{0, ExitStatus::exited(0)}, kT0 + 1s).next;
  auto const last = step(std::move(state), Exited{1, ExitStatus::exited(0)}, kT0 + 2s);

  CHECK(last.next.phase == GroupPhase::sweeping);
  CHECK(last.next.deadline == kT0 + 30s);
  CHECK(last.actions == Actions{ReportExit{1}});
}

TEST_CASE("worker_group: descendants come again and again while killing", "[unit]") {
  auto const killing = step(two_running(), StopOrdered{order(0s)}, kT0).next;

  CHECK(step(killing, DescendantsFound{}, kT0).actions == Actions{SignalDescendants{SIGKILL}});
  CHECK(step(killing, DescendantsGone{}, kT0).next.phase == GroupPhase::killing);
}

TEST_CASE("worker_group: who survives SIGKILL is reported and counted as killed by us", "[unit]") {
  auto state = step(two_running(), StopOrdered{order(0s)}, kT0).next;
  state = step(std::move(state), Exited{0, ExitStatus::signalled(SIGKILL)}, kT0).next;

  CHECK(step(state, Tick{}, kT0 + 59s).actions == Actions{ArmTimer{kT0 + 60s}});
  auto const given_up = step(state, Tick{}, kT0 + 60s);
  CHECK(given_up.actions == Actions{ReportUnkillable{}, ReportEnded{}});
  CHECK(given_up.next.workers[1].status == ExitStatus::signalled(SIGKILL));
  CHECK(given_up.next.workers[1].ours);
}

TEST_CASE("worker_group: a failed start is an exit, and the last one ends the generation", "[unit]") {
  auto state = after({Begin{2}, StartFailed{0, ENOENT}});
  CHECK(state.phase == GroupPhase::running);
  CHECK(state.workers[0].status == ExitStatus::not_started(ENOENT));

  state = step(std::move(state), StartFailed{1, ENOENT}, kT0).next;
  CHECK(state.phase == GroupPhase::sweeping);
}

TEST_CASE("worker_group: a stop that overtakes a start is not missed", "[unit]") {
  auto const stopping = after({Begin{1}, StopOrdered{order(5s)}});
  CHECK(step(stopping, Started{0, 10}, kT0).actions == Actions{SignalGroup{0, SIGTERM}});

  auto const killing = after({Begin{1}, StopOrdered{order(0s)}});
  CHECK(step(killing, Started{0, 10}, kT0).actions == Actions{SignalGroup{0, SIGKILL}});
}

TEST_CASE("worker_group: no workers at all end at once", "[unit]") {
  CHECK(step({}, Begin{0}, kT0).actions == Actions{ReportEnded{}});
}

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
  CHECK(stopped.actions ==
        Actions{TellOver{}, SignalGroup{1, SIGTERM}, SignalDescendants{SIGTERM}, ArmTimer{kT0 + 5s}});
  CHECK(keeps(stopped.next, stopped.next.workers[0]));
  CHECK_FALSE(keeps(stopped.next, stopped.next.workers[1]));

  auto const due = step(stopped.next, Tick{}, kT0 + 5s);
  CHECK(due.actions ==
        Actions{SignalGroup{0, SIGKILL}, SignalGroup{1, SIGKILL}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});
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
  CHECK(early.phase == GroupPhase::running);  // nobody has said that anything is wrong
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
  CHECK(stopped.actions ==
        Actions{TellEnds{}, SignalGroup{0, SIGTERM}, SignalDescendants{SIGTERM}, ArmTimer{kT0 + 5s}});
  auto const ended = step(stopped.next, Exited{0, ExitStatus::exited(0)}, kT0);
  CHECK(ended.actions.empty());
  CHECK(step(ended.next, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
  CHECK(step(stopped.next, Tick{}, kT0 + 5s).actions ==
        Actions{SignalGroup{0, SIGKILL}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});

  auto const forgotten = step(waiting(), Exited{0, ExitStatus::exited(0)}, kT0).next;
  auto const nobody = step(forgotten, StopOrdered{order(5s)}, kT0).next;  // it is answered all the same
  CHECK(nobody.phase == GroupPhase::sweeping);
  CHECK(step(nobody, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
}

TEST_CASE("worker_group: an order that keeps nobody, in the middle of one that keeps", "[unit]") {
  auto const keeping = one_survives({StopOrdered{parking()}});
  auto const one = step(keeping, StopOrdered{order(30s)}, kT0 + 1s);
  CHECK(one.actions == Actions{TellEnds{}, SignalGroup{0, SIGTERM}, ArmTimer{kT0 + 31s}});  // worker 1 has had it
  CHECK(step(one.next, HasParked{0}, kT0).next == one.next);
  CHECK(step(one.next, StopOrdered{parking()}, kT0 + 1s).next.parks == false);

  auto const parked = step(keeping, HasParked{0}, kT0).next;
  CHECK(step(parked, StopOrdered{order(30s)}, kT0).next.workers[0].life == GroupWorker::Life::alive);
  auto const now = step(parked, StopOrdered{order(0s)}, kT0);
  CHECK(now.next.phase == GroupPhase::killing);
  CHECK(now.actions == Actions{TellEnds{}, SignalGroup{0, SIGKILL}, SignalGroup{1, SIGKILL}, SignalDescendants{SIGKILL},
                               ArmTimer{kT0 + 60s}});
}

TEST_CASE("worker_group: whoever survives SIGKILL is given up, and those that wait are kept", "[unit]") {
  auto state = one_survives({StopOrdered{parking()}, HasParked{0}});
  state = step(std::move(state), Tick{}, kT0 + 5s).next;
  auto const given_up = step(std::move(state), Tick{}, kT0 + 65s);
  CHECK(given_up.actions == Actions{ReportUnkillable{}, ReportEnded{}});
  CHECK(given_up.next.phase == GroupPhase::parked);
  CHECK(given_up.next.workers[0].life == GroupWorker::Life::parked);
}

TEST_CASE("worker_group: one worker killed alone has failed, whatever is ordered before its death is seen", "[unit]") {
  auto killed = step(two_running(), KillOrdered{1}, kT0);
  CHECK(killed.actions == Actions{SignalGroup{1, SIGKILL}});
  auto const ended = step(std::move(killed.next), Exited{1, ExitStatus::signalled(SIGKILL)}, kT0);
  CHECK_FALSE(ended.next.workers[1].ours);
  CHECK(ended.next.workers[0].life == GroupWorker::Life::alive);
  auto stopping = step(step(two_running(), KillOrdered{1}, kT0).next, StopOrdered{order(5s)}, kT0);
  stopping = step(std::move(stopping.next), Exited{1, ExitStatus::signalled(SIGKILL)}, kT0);
  CHECK_FALSE(stopping.next.workers[1].ours);
  CHECK(step(two_running(), KillOrdered{2}, kT0).actions.empty());
  CHECK(step(ended.next, KillOrdered{1}, kT0).actions.empty());
}
