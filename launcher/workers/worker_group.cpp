#include "launcher/workers/worker_group.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <csignal>
#include <string>
#include <utility>

namespace cxxrun::launcher {
namespace {

using Life = GroupWorker::Life;

/// One call of step(): the state being changed, the actions so far, and what several transitions share.
struct GroupTurn : BasicTurn<GroupState, GroupAction, GroupPolicy> {
  static constexpr std::uint64_t bit(int signal) { return std::uint64_t{1} << static_cast<unsigned>(signal & 63); }

  void ignore(std::string_view what) {
    say(Level::debug, "ignoring " + std::string(what) + " while " + std::string(phase_name(state.phase)));
  }

  /// Every worker has ended, or is parked and kept.
  [[nodiscard]] bool all_over() const {
    return std::ranges::all_of(state.workers, [this](auto const& w) {
      return w.life == Life::ended || (w.life == Life::parked && state.parks);
    });
  }
  [[nodiscard]] bool any(Life life) const {
    return std::ranges::any_of(state.workers, [life](auto const& w) { return w.life == life; });
  }

  /// A stop or sweep is under way, and SIGKILL has not been sent.
  [[nodiscard]] bool is_stopping() const {
    return state.phase == GroupPhase::stopping || state.phase == GroupPhase::sweeping;
  }

  void arm(TimePoint at) {
    state.deadline = at;
    act(ArmTimer{at});
  }

  /// `send` is false when Slurm has sent the signal already: it is only recorded.
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
      if (worker.life == Life::alive) {
        worker.sent |= bit(SIGKILL);
        act(KillGroup{worker.local_rank});
      } else if (worker.life == Life::outlived) {
        worker.life = Life::ended;  // its program is killed as a descendant
      }
    }
    act(SignalDescendants{SIGKILL});
    arm(now + state.kill_timeout);
  }

  void end() {
    assert(all_over());
    state.phase = any(Life::parked) ? GroupPhase::parked : GroupPhase::ended;
    state.reported = true;
    state.deadline.reset();
    act(ReportEnded{});
  }

  // Called when a worker has ended or parked. Leftover processes get only a short grace: they had time while the
  // workers were saving.
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
    worker.life = outlived ? Life::outlived : Life::ended;
    worker.status = status;
    worker.ours = ours;
    if (!state.reported) {
      act(ReportExit{worker.local_rank});
    }
    sweep_if_over();
  }

  /// Null when this worker does not exist or its life is another.
  GroupWorker* worker(std::uint32_t local_rank, Life life) {
    bool const there = local_rank < state.workers.size() && state.workers[local_rank].life == life;
    return there ? &state.workers[local_rank] : nullptr;
  }

  /// The same, and logs that the event is ignored.
  GroupWorker* expect(std::uint32_t local_rank, Life life, std::string_view what) {
    auto* const found = worker(local_rank, life);
    if (found == nullptr) {
      ignore(what);
    }
    return found;
  }
};

struct Transition : GroupTurn {
  void on(Begin const& event) {
    if (state.phase != GroupPhase::idle && state.phase != GroupPhase::ended && state.phase != GroupPhase::parked) {
      ignore("a start");
      return;
    }
    auto const before = std::exchange(state, GroupState{}).workers;
    state.phase = GroupPhase::running;
    for (std::uint32_t i = 0; i < event.workers; ++i) {
      state.workers.emplace_back().local_rank = i;
    }
    for (auto const& old : before) {
      if (old.life == Life::parked || old.life == Life::alive) {
        take_on(old);
      }
    }
    if (event.workers == 0) {
      end();
    }
  }

  static GroupWorker missing(std::uint32_t local_rank) {
    GroupWorker worker;
    worker.local_rank = local_rank;
    return worker;
  }

  // A parked worker joins the new generation and is resumed. One that has not parked yet is replaced by a new process.
  void take_on(GroupWorker const& old) {
    if (old.local_rank >= state.workers.size() || old.life != Life::parked) {
      act(EndSurplus{old.pid});
      return;
    }
    auto& worker = state.workers[old.local_rank];
    worker.life = Life::alive;
    worker.pid = old.pid;
    worker.survives = true;
    worker.shrinks = old.shrinks;
    act(ResumeWorker{old.local_rank});
  }

  void on(ResumeFailed const& event) {
    auto* const lost = worker(event.local_rank, Life::alive);
    if (lost == nullptr || state.phase != GroupPhase::running || !lost->survives) {
      ignore("a failed resumption");
      return;
    }
    *lost = missing(event.local_rank);
  }

  void on(Survives const& event) {
    if (auto* const able = expect(event.local_rank, Life::alive, "a registration")) {
      able->survives = true;
      able->shrinks = event.shrinks;
    }
  }

  // A worker may park before any stop: it has seen its peer die first. It is kept if a stop with `park` follows. A
  // worker that was signalled because it registered too late may still park; one that was sent SIGKILL may not.
  void on(HasParked const& event) {
    auto* const able = worker(event.local_rank, Life::alive);
    bool const may =
        state.phase == GroupPhase::running || state.fills || (state.phase == GroupPhase::stopping && state.parks);
    if (able == nullptr || !able->survives || !may) {
      ignore("parking");
      return;
    }
    able->life = Life::parked;
    if (state.phase == GroupPhase::parked) {
      end_filling_if_whole();
    } else {
      sweep_if_over();
    }
  }

  void on(Fill const&) {
    if (state.phase != GroupPhase::parked && state.phase != GroupPhase::ended) {
      ignore("an order to fill");
      return;
    }
    state.phase = GroupPhase::parked;
    state.fills = true;
    for (auto& worker : state.workers) {
      if (worker.life == Life::ended) {
        worker = missing(worker.local_rank);
      }
    }
    act(TellOver{});  // so that the new workers park when they register
    end_filling_if_whole();
  }

  void end_filling_if_whole() {
    bool const whole = std::ranges::all_of(state.workers, [](auto const& each) { return each.life == Life::parked; });
    if (whole && std::exchange(state.fills, false)) {
      act(ReportFilled{true});
    }
  }

  // A worker ends between two generations, so its end is a failure of neither.
  void end_waiting(GroupWorker& worker) {
    worker.life = Life::ended;
    say(Level::debug, "a waiting worker has ended");
    if (std::exchange(state.fills, false)) {
      act(ReportFilled{false});
    }
  }

  void on(Started const& event) {
    auto* const started = expect(event.local_rank, Life::pending, "a started worker");
    if (started == nullptr) {
      return;
    }
    started->life = Life::alive;
    started->pid = event.pid;
    if (state.phase != GroupPhase::running && !state.fills) {  // a stop came during the start: apply it now
      bool const killing = state.phase == GroupPhase::killing;
      started->sent |= bit(killing ? SIGKILL : state.signal);
      if (killing) {
        act(KillGroup{event.local_rank});
      } else {
        act(AskWorker{event.local_rank, state.signal});
      }
    }
  }

  // After a stop order a failed start counts as ours: the node is not at fault.
  void on(StartFailed const& event) {
    if (auto* const failed = expect(event.local_rank, Life::pending, "a failed start")) {
      if (state.phase == GroupPhase::parked) {
        end_waiting(*failed);
        return;
      }
      record_end(*failed, ExitStatus::not_started(event.error), state.stop_ordered);
    }
  }

  // A stop order explains every exit code, but only deaths by a signal that the stop sent: a worker that dies of
  // SIGSEGV or of the OOM killer while stopping died of that. A process with much memory takes long to die, so our
  // SIGKILL may come after somebody else's; then it explains nothing.
  void on(Exited const& event) {
    auto* dead = worker(event.local_rank, Life::alive);
    dead = dead == nullptr ? expect(event.local_rank, Life::parked, "an exit") : dead;
    if (dead == nullptr) {
      return;
    }
    if (state.phase == GroupPhase::parked) {
      end_waiting(*dead);
      return;
    }
    bool const killed = event.status.kind == ExitStatus::Kind::signalled;
    bool const sent = killed && (dead->sent & bit(event.status.value)) != 0;
    bool const too_late = killed && event.status.value == SIGKILL && event.died_before_kill;
    bool const outlived = event.outlived && (state.phase == GroupPhase::running || state.phase == GroupPhase::stopping);
    record_end(*dead, event.status, state.stop_ordered && (!killed || (sent && !too_late)), outlived);
  }

  void on(StopOrdered const& event) {
    if (state.phase == GroupPhase::running || (state.phase == GroupPhase::parked && !event.order.park)) {
      begin_stop(event.order);
    } else if (!is_stopping()) {
      ignore("a stop");
    } else if (state.parks && !event.order.park) {
      stop_survivors(event.order);
    } else {
      tighten_stop(event.order);
    }
  }

  // The signal is not recorded in `sent`: this death stays a failure even if a stop is ordered before it is seen.
  void on(KillOrdered const& event) {
    if (state.phase != GroupPhase::running || worker(event.local_rank, Life::alive) == nullptr) {
      ignore("an order to kill one worker");
      return;
    }
    act(KillGroup{event.local_rank});
  }

  void on(ProgramEnded const& event) {
    if (auto* const wrapper = expect(event.local_rank, Life::outlived, "the end of a program")) {
      wrapper->life = Life::ended;
      sweep_if_over();
    }
  }

  void begin_stop(StopOrder const& order) {
    state.stop_ordered = true;
    state.fills = false;
    state.parks = order.park;
    state.signal = order.signal;
    state.silent = !order.send_signal;
    state.kill_timeout = order.kill_timeout;
    say(Level::debug, "stop ordered");
    if (order.park) {
      act(TellOver{});
    } else {
      release();
    }
    if (order.grace <= Millis{0}) {
      kill_everything();
    } else {
      state.phase = GroupPhase::stopping;
      ask_all(order.signal, order.send_signal);
      arm(now + order.grace);
    }
    sweep_if_over();  // all workers may have parked or died before the order
  }

  // There will be no other generation: parked workers are to end like the others.
  void release() {
    act(TellEnds{});
    for (auto& worker : state.workers) {
      if (worker.life == Life::parked) {
        worker.life = Life::alive;
      }
    }
  }

  // A stop that kept survivors becomes one that stops them, too. They have not been signalled yet, and their grace
  // begins now. The other workers have been signalled and are not signalled again.
  void stop_survivors(StopOrder const& order) {
    say(Level::debug, "stop ordered for surviving workers, too");
    release();
    for (auto& worker : state.workers) {
      if (worker.life == Life::alive && worker.survives) {
        worker.sent |= bit(order.signal);
        if (order.send_signal && order.grace > Millis{0}) {
          act(AskWorker{worker.local_rank, order.signal});
        }
      }
    }
    state.parks = false;
    state.silent = !order.send_signal;
    state.kill_timeout = std::min(state.kill_timeout, order.kill_timeout);
    if (order.grace <= Millis{0}) {
      kill_everything();
    } else if (!all_over()) {
      state.phase = GroupPhase::stopping;
      arm(now + order.grace);
    }
  }

  // A repeated order changes only two things: it sends the signal that a silent order left out, and shortens the grace.
  void tighten_stop(StopOrder const& order) {
    if (order.send_signal && state.silent) {
      state.silent = false;
      state.signal = order.signal;
      ask_all(order.signal, order.send_signal);
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
      act(SignalDescendants{SIGKILL});
    } else if (!is_stopping()) {
      ignore("a descendant");
    } else {
      act(SignalDescendants{state.signal});
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
    act(ReportUnkillable{});
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
  static constexpr std::array kNames{"idle", "running", "stopping", "killing", "sweeping", "parked", "ended"};
  return kNames.at(static_cast<std::size_t>(phase));
}

bool keeps(GroupState const& state, GroupWorker const& worker) {
  bool const may_park = worker.life == Life::alive && worker.survives && state.phase == GroupPhase::stopping;
  return state.parks && (worker.life == Life::parked || may_park);
}

int worker_pid(GroupState const& state, std::uint32_t local_rank) {
  auto const& workers = state.workers;
  return local_rank < workers.size() && workers[local_rank].life == Life::alive ? workers[local_rank].pid : 0;
}

bool lacks(GroupState const& state) {
  auto const& workers = state.workers;
  return std::ranges::any_of(workers, [](auto const& each) { return each.life == Life::ended; }) &&
         std::ranges::all_of(workers, [](auto const& each) { return each.shrinks; });
}

bool spares(GroupState const& state, int session) {
  auto const whose = std::ranges::find_if(
      state.workers, [session](auto const& worker) { return session > 0 && worker.pid == session; });
  bool const stopping = state.phase == GroupPhase::stopping;
  return whose == state.workers.end() ? stopping : keeps(state, *whose) || (stopping && whose->life != Life::ended);
}

GroupStep step(GroupState state, GroupEvent const& event, TimePoint now, GroupPolicy const& policy) {
  GroupStep result;
  result.next = std::move(state);
  Transition transition{{{result.next, result.actions, result.said, now, policy}}};
  std::visit([&transition](auto const& happened) { transition.on(happened); }, event);
  return result;
}

}  // namespace cxxrun::launcher
