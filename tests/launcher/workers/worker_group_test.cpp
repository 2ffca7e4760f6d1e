#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/launcher/workers/group_steps.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/said.hpp"

using namespace cxxrun::launcher;
using namespace cxxrun::launcher::testing;
using namespace std::chrono_literals;
using cxxrun::ExitStatus;
using cxxrun::TimePoint;

namespace {

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

// The table of docs/design/supervision.md whose first column has this head: phase → event → next phase.
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

TEST_CASE("worker_group: a stop asks every worker, and arms the deadline", "[unit]") {
  auto const stopped = step(two_running(), StopOrdered{order(5s)}, kT0 + 1s);

  CHECK(stopped.actions == Actions{TellEnds{}, AskWorker{0, SIGTERM}, AskWorker{1, SIGTERM}, ArmTimer{kT0 + 6s}});
}

TEST_CASE("worker_group: while a worker may be saving its helpers are spared, and nobody's daemons too", "[unit]") {
  CHECK_FALSE(spares(two_running(), 10));
  auto const stopping = step(two_running(), StopOrdered{order(5s)}, kT0).next;
  CHECK(spares(stopping, 10));
  CHECK(spares(stopping, 99));

  auto const one = step(stopping, Exited{0, ExitStatus::exited(0)}, kT0).next;
  CHECK_FALSE(spares(one, 10));
  CHECK(spares(one, 11));
  CHECK(spares(one, 99));

  auto const both = step(one, Exited{1, ExitStatus::exited(0)}, kT0).next;
  CHECK_FALSE(spares(both, 11));
  CHECK_FALSE(spares(both, 99));
  CHECK_FALSE(spares(step(stopping, Tick{}, kT0 + 5s).next, 10));
}

TEST_CASE("worker_group: at the deadline only those still alive are killed", "[unit]") {
  auto state = two_running();
  state = step(state, StopOrdered{order(5s)}, kT0).next;
  state = step(state, Exited{0, ExitStatus::signalled(SIGTERM)}, kT0).next;

  auto const due = step(state, Tick{}, kT0 + 5s);

  CHECK(due.next.phase == GroupPhase::killing);
  CHECK(due.actions == Actions{KillGroup{1}, SignalDescendants{SIGKILL}, ArmTimer{kT0 + 65s}});
}

TEST_CASE("worker_group: an order without a signal sends none before SIGKILL", "[unit]") {
  StopOrder silent = order(5s);
  silent.send_signal = false;

  auto const stopped = step(two_running(), StopOrdered{silent}, kT0);

  CHECK(stopped.actions == Actions{TellEnds{}, ArmTimer{kT0 + 5s}});
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
  CHECK(signalled.actions == Actions{AskWorker{0, SIGTERM}, AskWorker{1, SIGTERM}});
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

TEST_CASE("worker_group: leftovers of a natural end get SIGTERM, then SIGKILL after half a second", "[unit]") {
  auto const first = step(two_running(), Exited{0, ExitStatus::exited(0)}, kT0);
  CHECK(first.actions == Actions{ReportExit{0}});

  auto const last = step(first.next, Exited{1, ExitStatus::exited(0)}, kT0);
  CHECK(last.actions == Actions{ReportExit{1}, SignalDescendants{SIGTERM}, ArmTimer{kT0 + 500ms}});
  CHECK(step(last.next, DescendantsFound{}, kT0).actions == Actions{SignalDescendants{SIGTERM}});
  CHECK(step(last.next, DescendantsGone{}, kT0).actions == Actions{ReportEnded{}});
  CHECK(step(last.next, Tick{}, kT0 + 500ms).actions == Actions{SignalDescendants{SIGKILL}, ArmTimer{kT0 + 60500ms}});
}

TEST_CASE("worker_group: after a stop leftovers have half a second, but not beyond the order's deadline", "[unit]") {
  auto state = step(two_running(), StopOrdered{order(30s)}, kT0).next;
  state = step(std::move(state), Exited{0, ExitStatus::exited(0)}, kT0 + 1s).next;
  CHECK(step(state, DescendantsFound{}, kT0).actions == Actions{SignalDescendants{SIGTERM}});
  auto const last = step(state, Exited{1, ExitStatus::exited(0)}, kT0 + 2s);

  CHECK(last.next.phase == GroupPhase::sweeping);
  CHECK(last.actions == Actions{ReportExit{1}, SignalDescendants{SIGTERM}, ArmTimer{kT0 + 2500ms}});
  CHECK(step(state, Exited{1, ExitStatus::exited(0)}, kT0 + 29900ms).next.deadline == kT0 + 30s);
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
  CHECK(step(stopping, Started{0, 10}, kT0).actions == Actions{AskWorker{0, SIGTERM}});

  auto const killing = after({Begin{1}, StopOrdered{order(0s)}});
  CHECK(step(killing, Started{0, 10}, kT0).actions == Actions{KillGroup{0}});
}

TEST_CASE("worker_group: no workers at all end at once", "[unit]") {
  CHECK(step({}, Begin{0}, kT0).actions == Actions{ReportEnded{}});
}

TEST_CASE("worker_group: one worker killed alone has failed, whatever is ordered before its death is seen", "[unit]") {
  auto killed = step(two_running(), KillOrdered{1}, kT0);
  CHECK(killed.actions == Actions{KillGroup{1}});
  auto const ended = step(std::move(killed.next), Exited{1, ExitStatus::signalled(SIGKILL)}, kT0);
  CHECK_FALSE(ended.next.workers[1].ours);
  CHECK(ended.next.workers[0].life == GroupWorker::Life::alive);
  auto stopping = step(step(two_running(), KillOrdered{1}, kT0).next, StopOrdered{order(5s)}, kT0);
  stopping = step(std::move(stopping.next), Exited{1, ExitStatus::signalled(SIGKILL)}, kT0);
  CHECK_FALSE(stopping.next.workers[1].ours);
  CHECK(step(two_running(), KillOrdered{2}, kT0).actions.empty());
  CHECK(step(ended.next, KillOrdered{1}, kT0).actions.empty());
}

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
