#include "launcher/worker_group.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace cxxrun::launcher {
namespace {

using Life = GroupWorker::Life;

constexpr std::uint64_t bit(int signal) {
  return std::uint64_t{1} << static_cast<unsigned>(signal & 63);
}

// One call of step(): the state being changed and the actions so far.
struct Transition {
  GroupState state;
  TimePoint now;
  GroupPolicy const& policy;
  std::vector<GroupAction> actions;
  std::string reason;

  void ignore(std::string_view what) {
    reason = std::string(what) + " means nothing while " + std::string(phase_name(state.phase));
  }

  [[nodiscard]] bool all_ended() const {
    return std::all_of(state.workers.begin(), state.workers.end(), [](auto const& w) { return w.life == Life::ended; });
  }

  void arm(TimePoint at) {
    state.deadline = at;
    actions.emplace_back(ArmTimer{at});
  }

  void signal_workers(int signal, bool send) {
    for (auto& worker : state.workers) {
      if (worker.life == Life::alive) {
        worker.sent |= bit(signal);
        if (send) {
          actions.emplace_back(SignalGroup{worker.local_rank, signal});
        }
      }
    }
  }

  void kill_everything() {
    state.phase = GroupPhase::killing;
    signal_workers(SIGKILL, true);
    actions.emplace_back(SignalDescendants{SIGKILL});
    arm(now + state.kill_timeout);
  }

  void end() {
    state.phase = GroupPhase::ended;
    state.deadline.reset();
    actions.emplace_back(ReportEnded{});
  }

  // The last worker has ended. What a stop has begun goes on with its deadline; a natural end begins one.
  void workers_ended() {
    if (state.phase == GroupPhase::running) {
      actions.emplace_back(SignalDescendants{state.signal});
      arm(now + policy.leftover_grace);
      reason = "every worker has ended";
    }
    if (state.phase != GroupPhase::killing) {
      state.phase = GroupPhase::sweeping;
    }
  }

  void record_end(GroupWorker& worker, ExitStatus const& status, bool ours) {
    worker.life = Life::ended;
    worker.status = status;
    worker.ours = ours;
    actions.emplace_back(ReportExit{worker.local_rank});
    if (all_ended()) {
      workers_ended();
    }
  }

  GroupWorker* worker(std::uint32_t local_rank, Life life) {
    if (local_rank >= state.workers.size() || state.workers[local_rank].life != life) {
      return nullptr;
    }
    return &state.workers[local_rank];
  }

  void on(Begin const& event) {
    if (state.phase != GroupPhase::idle && state.phase != GroupPhase::ended) {
      ignore("a start");
      return;
    }
    state = GroupState{};
    state.phase = GroupPhase::running;
    state.kill_timeout = policy.kill_timeout;
    state.workers.resize(event.workers);
    for (std::uint32_t i = 0; i < event.workers; ++i) {
      state.workers[i].local_rank = i;
    }
    if (event.workers == 0) {
      end();
    }
  }

  void on(Started const& event) {
    auto* const started = worker(event.local_rank, Life::pending);
    if (started == nullptr) {
      ignore("a started worker");
      return;
    }
    started->life = Life::alive;
    started->pid = event.pid;
    if (state.phase != GroupPhase::running) {  // the stop overtook the start: it must not be missed
      int const signal = state.phase == GroupPhase::killing ? SIGKILL : state.signal;
      started->sent |= bit(signal);
      actions.emplace_back(SignalGroup{event.local_rank, signal});
    }
  }

  void on(StartFailed const& event) {
    auto* const failed = worker(event.local_rank, Life::pending);
    if (failed == nullptr) {
      ignore("a failed start");
      return;
    }
    record_end(*failed, ExitStatus::not_started(event.error), false);
  }

  // After an order any exit code is explained by it, but only the signals that were sent: a worker that dies of
  // SIGSEGV or of the OOM killer while stopping died of that. Who is killed with much memory takes long to die: our
  // SIGKILL may come after another's, and explains nothing then.
  void on(Exited const& event) {
    auto* const dead = worker(event.local_rank, Life::alive);
    if (dead == nullptr) {
      ignore("an exit");
      return;
    }
    bool const killed = event.status.kind == ExitStatus::Kind::signalled;
    bool const sent = killed && (dead->sent & bit(event.status.value)) != 0;
    bool const too_late = killed && event.status.value == SIGKILL && event.died_before_kill;
    record_end(*dead, event.status, state.stop_ordered && (!killed || (sent && !too_late)));
  }

  void on(StopOrdered const& event) {
    switch (state.phase) {
      case GroupPhase::idle:
      case GroupPhase::killing:
      case GroupPhase::ended: ignore("a stop"); return;
      case GroupPhase::running: begin_stop(event.order); return;
      case GroupPhase::stopping:
      case GroupPhase::sweeping: hurry(event.order); return;
    }
  }

  void begin_stop(StopOrder const& order) {
    state.stop_ordered = true;
    state.signal = order.signal;
    state.silent = !order.send_signal;
    state.kill_timeout = order.kill_timeout;
    reason = "stop ordered";
    if (order.grace <= Millis{0}) {
      kill_everything();
      return;
    }
    state.phase = GroupPhase::stopping;
    signal_workers(order.signal, order.send_signal);
    if (order.send_signal) {
      actions.emplace_back(SignalDescendants{order.signal});
    }
    arm(now + order.grace);
  }

  // Asked again: news are a signal after a silent order, and a shorter patience.
  void hurry(StopOrder const& order) {
    if (order.send_signal && state.silent) {
      state.silent = false;
      state.signal = order.signal;
      signal_workers(order.signal, true);
      actions.emplace_back(SignalDescendants{order.signal});
    }
    TimePoint const wanted = now + order.grace;
    state.kill_timeout = std::min(state.kill_timeout, order.kill_timeout);
    if (order.grace <= Millis{0}) {
      reason = "stop ordered at once";
      kill_everything();
    } else if (!state.deadline || wanted < *state.deadline) {
      reason = "stop ordered with a shorter grace";
      arm(wanted);
    }
  }

  void on(DescendantsFound const&) {
    if (state.phase == GroupPhase::killing) {
      actions.emplace_back(SignalDescendants{SIGKILL});
    } else if (state.phase == GroupPhase::stopping || state.phase == GroupPhase::sweeping) {
      if (!state.silent) {
        actions.emplace_back(SignalDescendants{state.signal});
      }
    } else {
      ignore("a descendant");
    }
  }

  void on(DescendantsGone const&) {
    bool const waiting = state.phase == GroupPhase::sweeping || state.phase == GroupPhase::killing;
    if (waiting && all_ended()) {
      end();
    } else {
      ignore("the absence of descendants");
    }
  }

  void on(Tick const&) {
    if (!state.deadline) {
      ignore("a timer");
    } else if (now < *state.deadline) {
      arm(*state.deadline);
    } else if (state.phase == GroupPhase::killing) {
      give_up();
    } else {
      reason = "grace is over, SIGKILL";
      kill_everything();
    }
  }

  void give_up() {
    reason = "processes survive SIGKILL";
    actions.emplace_back(ReportUnkillable{});
    for (auto& worker : state.workers) {
      if (worker.life != Life::ended) {
        worker.life = Life::ended;
        worker.status = ExitStatus::signalled(SIGKILL);
        worker.ours = true;
      }
    }
    end();
  }
};

}  // namespace

std::string_view phase_name(GroupPhase phase) {
  switch (phase) {
    case GroupPhase::idle: return "idle";
    case GroupPhase::running: return "running";
    case GroupPhase::stopping: return "stopping";
    case GroupPhase::killing: return "killing";
    case GroupPhase::sweeping: return "sweeping";
    case GroupPhase::ended: return "ended";
  }
  return "?";
}

GroupStep step(GroupState state, GroupEvent const& event, TimePoint now, GroupPolicy const& policy) {
  Transition transition{std::move(state), now, policy, {}, {}};
  std::visit([&transition](auto const& happened) { transition.on(happened); }, event);
  return {std::move(transition.state), std::move(transition.actions), std::move(transition.reason)};
}

}  // namespace cxxrun::launcher
