#include "launcher/workers/worker_group.hpp"

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
struct Transition : BasicTurn<GroupState, GroupAction, GroupPolicy> {
  void ignore(std::string_view what) {
    say(Level::debug, std::string(what) + " means nothing while " + std::string(phase_name(state.phase)));
  }

  /// Each has ended, or is parked and kept.
  [[nodiscard]] bool all_over() const {
    return std::all_of(state.workers.begin(), state.workers.end(), [this](auto const& w) {
      return w.life == Life::ended || (w.life == Life::parked && state.parks);
    });
  }
  [[nodiscard]] bool any(Life life) const {
    return std::any_of(state.workers.begin(), state.workers.end(), [life](auto const& w) { return w.life == life; });
  }

  void arm(TimePoint at) {
    state.deadline = at;
    actions.emplace_back(ArmTimer{at});
  }

  void signal_workers(int signal, bool send) {
    for (auto& worker : state.workers) {
      if (worker.life == Life::alive && (signal == SIGKILL || !keeps(state, worker))) {
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
    state.phase = any(Life::parked) ? GroupPhase::parked : GroupPhase::ended;
    state.reported = true;
    state.deadline.reset();
    actions.emplace_back(ReportEnded{});
  }

  // The last worker has ended, or parked. What a stop has begun goes on with its deadline; a natural end begins one.
  void workers_ended() {
    if (state.phase == GroupPhase::running) {
      actions.emplace_back(SignalDescendants{state.signal});
      arm(now + policy.leftover_grace);
      say(Level::debug, "every worker has ended");
    }
    if (state.phase != GroupPhase::killing) {
      state.phase = GroupPhase::sweeping;
    }
  }

  void record_end(GroupWorker& worker, ExitStatus const& status, bool ours) {
    worker.life = Life::ended;
    worker.status = status;
    worker.ours = ours;
    if (!state.reported) {
      actions.emplace_back(ReportExit{worker.local_rank});
    }
    if (all_over()) {
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
    if (state.phase != GroupPhase::idle && state.phase != GroupPhase::ended && state.phase != GroupPhase::parked) {
      ignore("a start");
      return;
    }
    auto const before = std::exchange(state, GroupState{}).workers;
    state.phase = GroupPhase::running;
    state.kill_timeout = policy.kill_timeout;
    state.workers.resize(event.workers);
    for (std::uint32_t i = 0; i < event.workers; ++i) {
      state.workers[i].local_rank = i;
    }
    for (auto const& old : before) {
      if (old.life == Life::parked) {
        take_on(old);
      }
    }
    if (event.workers == 0) {
      end();
    }
  }

  // It has waited for this generation, and is of it from now on.
  void take_on(GroupWorker const& old) {
    if (old.local_rank >= state.workers.size()) {
      actions.emplace_back(EndSurplus{old.pid});
      return;
    }
    auto& worker = state.workers[old.local_rank];
    worker.life = Life::alive;
    worker.pid = old.pid;
    worker.survives = true;
    actions.emplace_back(ResumeWorker{old.local_rank});
  }

  void on(ResumeFailed const& event) {
    auto* const lost = worker(event.local_rank, Life::alive);
    if (lost == nullptr || state.phase != GroupPhase::running || !lost->survives) {
      ignore("a failed resumption");
      return;
    }
    *lost = GroupWorker{};
    lost->local_rank = event.local_rank;
  }

  void on(Survives const& event) {
    auto* const able = worker(event.local_rank, Life::alive);
    if (able == nullptr) {
      ignore("a registration");
      return;
    }
    able->survives = true;
  }

  // Before any stop nothing is known to be wrong yet: it is kept if a stop comes that keeps. One that was signalled, or
  // came to survive only after that, may still park; one that was killed is as good as dead.
  void on(HasParked const& event) {
    auto* const able = worker(event.local_rank, Life::alive);
    bool const may = state.phase == GroupPhase::running || (state.phase == GroupPhase::stopping && state.parks);
    if (able == nullptr || !able->survives || !may) {
      ignore("parking");
      return;
    }
    able->life = Life::parked;
    if (all_over()) {
      workers_ended();
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
    auto* dead = worker(event.local_rank, Life::alive);
    dead = dead == nullptr ? worker(event.local_rank, Life::parked) : dead;
    if (dead == nullptr) {
      ignore("an exit");
      return;
    }
    if (state.phase == GroupPhase::parked) {
      dead->life = Life::ended;
      say(Level::debug, "a worker that waited has ended");
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
      case GroupPhase::parked:
        if (event.order.park) {
          ignore("a stop");
        } else {
          begin_stop(event.order);
        }
        return;
      case GroupPhase::stopping:
      case GroupPhase::sweeping:
        if (state.parks && !event.order.park) {
          keep_nobody(event.order);
        } else {
          hurry(event.order);
        }
        return;
    }
  }

  // Not noted as sent: this death is a failure, whatever is ordered before it is seen.
  void on(KillOrdered const& event) {
    if (state.phase != GroupPhase::running || worker(event.local_rank, Life::alive) == nullptr) {
      ignore("the death of one worker");
      return;
    }
    actions.emplace_back(SignalGroup{event.local_rank, SIGKILL});
  }

  void begin_stop(StopOrder const& order) {
    state.stop_ordered = true;
    state.parks = order.park;
    state.signal = order.signal;
    state.silent = !order.send_signal;
    state.kill_timeout = order.kill_timeout;
    say(Level::debug, "stop ordered");
    if (order.park) {
      actions.emplace_back(TellOver{});
    } else {
      release();
    }
    if (order.grace <= Millis{0}) {
      kill_everything();
    } else {
      state.phase = GroupPhase::stopping;
      signal_workers(order.signal, order.send_signal);
      if (order.send_signal) {
        actions.emplace_back(SignalDescendants{order.signal});
      }
      arm(now + order.grace);
    }
    if (all_over()) {  // parked, before anything was known to be wrong; or dead since
      workers_ended();
    }
  }

  // Nobody waits any more: who is parked is to end like the others.
  void release() {
    actions.emplace_back(TellEnds{});
    for (auto& worker : state.workers) {
      if (worker.life == Life::parked) {
        worker.life = Life::alive;
      }
    }
  }

  // A stop that keeps some becomes one that keeps nobody. They have not been signalled, and their grace begins now; who
  // was signalled is not signalled again.
  void keep_nobody(StopOrder const& order) {
    say(Level::debug, "stop ordered, of those too that would survive");
    release();
    for (auto& worker : state.workers) {
      if (worker.life == Life::alive && worker.survives) {
        worker.sent |= bit(order.signal);
        if (order.send_signal && order.grace > Millis{0}) {
          actions.emplace_back(SignalGroup{worker.local_rank, order.signal});
        }
      }
    }
    state.parks = false;
    state.silent = !order.send_signal;
    state.kill_timeout = std::min(state.kill_timeout, order.kill_timeout);
    if (order.grace <= Millis{0}) {
      kill_everything();
    } else if (any(Life::alive)) {
      state.phase = GroupPhase::stopping;
      arm(now + order.grace);
    }
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
      say(Level::debug, "stop ordered at once");
      kill_everything();
    } else if (!state.deadline || wanted < *state.deadline) {
      say(Level::debug, "stop ordered with a shorter grace");
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
    if (waiting && all_over()) {
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
      say(Level::debug, "grace is over, SIGKILL");
      kill_everything();
    }
  }

  void give_up() {
    say(Level::debug, "processes survive SIGKILL");
    actions.emplace_back(ReportUnkillable{});
    for (auto& worker : state.workers) {
      if (worker.life == Life::alive || worker.life == Life::pending) {
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
    case GroupPhase::parked: return "parked";
    case GroupPhase::ended: return "ended";
  }
  return "?";
}

bool keeps(GroupState const& state, GroupWorker const& worker) {
  bool const may_park = worker.life == Life::alive && worker.survives && state.phase == GroupPhase::stopping;
  return state.parks && (worker.life == Life::parked || may_park);
}

GroupStep step(GroupState state, GroupEvent const& event, TimePoint now, GroupPolicy const& policy) {
  GroupStep result;
  result.next = std::move(state);
  Transition transition{{result.next, result.actions, result.said, now, policy}};
  std::visit([&transition](auto const& happened) { transition.on(happened); }, event);
  return result;
}

}  // namespace cxxrun::launcher
