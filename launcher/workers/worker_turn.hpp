// What the events of a group's life have in common: the state being changed, and the actions so far. Internal to
// worker_group.
#pragma once

#include <algorithm>
#include <csignal>
#include <string>

#include "launcher/workers/worker_group_state.hpp"

namespace cxxrun::launcher {

/// One call of step().
struct GroupTurn : BasicTurn<GroupState, GroupAction, GroupPolicy> {
  static constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << static_cast<unsigned>(signal & 63); }

  void ignore(std::string_view what) {
    say(Level::debug, std::string(what) + " means nothing while " + std::string(phase_name(state.phase)));
  }

  /// Each has ended, or is parked and kept.
  [[nodiscard]] bool all_over() const {
    return std::all_of(state.workers.begin(), state.workers.end(), [this](auto const& w) {
      return w.life == GroupWorker::Life::ended || (w.life == GroupWorker::Life::parked && state.parks);
    });
  }
  [[nodiscard]] bool any(GroupWorker::Life life) const {
    return std::any_of(state.workers.begin(), state.workers.end(), [life](auto const& w) { return w.life == life; });
  }

  /// Not killed yet.
  [[nodiscard]] bool is_stopping() const {
    return state.phase == GroupPhase::stopping || state.phase == GroupPhase::sweeping;
  }

  void arm(TimePoint at) {
    state.deadline = at;
    act(ArmTimer{at});
  }

  /// Not `send`: somebody else has.
  void ask_all(int signal, bool send) {
    for (auto& worker : state.workers) {
      if (worker.runs() && !keeps(state, worker)) {
        worker.sent |= bit(signal);
        if (send) {
          act(AskWorker{worker.local_rank, signal});
        }
      }
    }
  }

  void kill_everything() {
    state.phase = GroupPhase::killing;
    for (auto& worker : state.workers) {
      if (worker.life == GroupWorker::Life::alive) {
        worker.sent |= bit(SIGKILL);
        act(KillGroup{worker.local_rank});
      } else if (worker.life == GroupWorker::Life::outlived) {
        worker.life = GroupWorker::Life::ended;  // the program is what it has left, like anything else
      }
    }
    act(SignalDescendants{SIGKILL});
    arm(now + state.kill_timeout);
  }

  void end() {
    state.phase = any(GroupWorker::Life::parked) ? GroupPhase::parked : GroupPhase::ended;
    state.reported = true;
    state.deadline.reset();
    act(ReportEnded{});
  }

  // The last worker may have ended, or parked. What they have left had its time while they saved.
  void sweep_if_over() {
    if (!all_over() || state.phase == GroupPhase::killing || state.phase == GroupPhase::sweeping) {
      return;
    }
    state.phase = GroupPhase::sweeping;
    act(SignalDescendants{state.signal});
    arm(std::min(state.deadline.value_or(TimePoint::max()), now + policy.leftover_grace));
    say(Level::debug, "every worker has ended");
  }

  void record_end(GroupWorker& worker, ExitStatus const& status, bool ours, bool outlived = false) {
    worker.life = outlived ? GroupWorker::Life::outlived : GroupWorker::Life::ended;
    worker.status = status;
    worker.ours = ours;
    if (!state.reported) {
      act(ReportExit{worker.local_rank});
    }
    sweep_if_over();
  }

  GroupWorker* worker(std::uint32_t local_rank, GroupWorker::Life life) {
    bool const there = local_rank < state.workers.size() && state.workers[local_rank].life == life;
    return there ? &state.workers[local_rank] : nullptr;
  }

  /// In another life the event means nothing.
  GroupWorker* expect(std::uint32_t local_rank, GroupWorker::Life life, std::string_view what) {
    auto* const found = worker(local_rank, life);
    if (found == nullptr) {
      ignore(what);
    }
    return found;
  }
};

}  // namespace cxxrun::launcher
