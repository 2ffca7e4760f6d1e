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
  void signal_all(int signal, bool send) {
    for (auto& worker : state.workers) {
      if (worker.life == GroupWorker::Life::alive && (signal == SIGKILL || !keeps(state, worker))) {
        worker.sent |= bit(signal);
        if (send) {
          act(SignalGroup{worker.local_rank, signal});
        }
      }
    }
    if (send) {
      act(SignalDescendants{signal});
    }
  }

  void kill_everything() {
    state.phase = GroupPhase::killing;
    signal_all(SIGKILL, true);
    arm(now + state.kill_timeout);
  }

  void end() {
    state.phase = any(GroupWorker::Life::parked) ? GroupPhase::parked : GroupPhase::ended;
    state.reported = true;
    state.deadline.reset();
    act(ReportEnded{});
  }

  // The last worker may have ended, or parked. What a stop has begun goes on with its deadline; a natural end begins
  // one.
  void sweep_if_over() {
    if (!all_over()) {
      return;
    }
    if (state.phase == GroupPhase::running) {
      act(SignalDescendants{state.signal});
      arm(now + policy.leftover_grace);
      say(Level::debug, "every worker has ended");
    }
    if (state.phase != GroupPhase::killing) {
      state.phase = GroupPhase::sweeping;
    }
  }

  void record_end(GroupWorker& worker, ExitStatus const& status, bool ours) {
    worker.life = GroupWorker::Life::ended;
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
