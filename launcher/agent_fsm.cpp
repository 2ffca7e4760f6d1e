#include "launcher/agent_fsm.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/health_check.hpp"
#include "rendezvous/verdict.hpp"

namespace cxxrun::launcher::agent {
namespace {

using rendezvous::StopKind;

struct Turn {
  State& state;
  std::vector<Action>& actions;
  std::string& reason;
  TimePoint now;
  Policy const& policy;

  void act(Action action) { actions.push_back(std::move(action)); }
};

/// Processes of ours run, be it workers or the health check: nobody leaves before they are gone.
bool has_processes(Life life) {
  return life == Life::running || life == Life::checking || life == Life::stopping || life == Life::leaving;
}

std::uint64_t number_of(State const& state) {
  return state.generation ? state.generation->number : 0;
}

void leave(Turn& turn, int code, std::string line) {
  turn.state.life = Life::done;
  turn.state.exit_code = code;
  turn.act(Exit{code, std::move(line)});
}

void say_stopped(Turn& turn) {
  turn.act(Tell{rendezvous::Stopped{number_of(turn.state), turn.state.exits, turn.state.unkillable}});
}

/// Told all there is to tell: waits for the coordinator's last word.
void say_farewell(Turn& turn) {
  turn.state.life = Life::farewell;
  turn.state.deadline = turn.now + turn.policy.farewell_timeout;
  turn.act(ArmTimer{*turn.state.deadline});
}

Millis grace_for(StopKind kind, Policy const& policy) {
  switch (kind) {
    case StopKind::failure: return policy.restart_timeout;
    case StopKind::resize: return policy.shutdown_timeout;
    case StopKind::user: return policy.end_timeout;
  }
  return policy.restart_timeout;
}

StopWorkers stop_order(Turn const& turn, Millis grace, int signal = SIGTERM, bool send_signal = true) {
  return StopWorkers{StopOrder{signal, send_signal, grace, turn.policy.kill_timeout}};
}

/// Stops what runs because this agent ends. A health check has nothing to save: it is killed.
void stop_to_leave(Turn& turn, Millis grace, int signal = SIGTERM, bool send_signal = true) {
  Life const before = std::exchange(turn.state.life, Life::leaving);
  bool const unsignalled = before == Life::running || turn.state.owed_at;
  turn.state.owed_at.reset();
  if (before == Life::checking) {
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  } else {
    turn.act(stop_order(turn, grace, signal, send_signal && unsignalled));
  }
}

/// Another node was told to end. When that was Slurm, which signals the workers of every node itself, its signal comes
/// here too, only later: ours would be a second one.
void stop_for_all(Turn& turn, StopKind kind, Millis grace) {
  bool const wait = kind == StopKind::user && turn.policy.slurm_signals_all;
  turn.act(stop_order(turn, grace, SIGTERM, !wait));
  if (wait) {
    turn.state.owed_at = turn.now + turn.policy.slurm_patience;
    turn.act(ArmTimer{*turn.state.owed_at});
  }
}

// ---- messages of the coordinator ------------------------------------------------------------------------------

void hear(Turn& turn, rendezvous::Prepare const& message) {
  State& state = turn.state;
  bool const free = state.life == Life::waiting || state.life == Life::ready || state.life == Life::checking;
  if (!free || message.generation.number <= number_of(state)) {
    turn.reason = "ignored: generation " + std::to_string(message.generation.number) + " offered in mid-generation";
    return;
  }
  state.generation = message.generation;
  state.exits.clear();
  state.unkillable.clear();
  if (state.life == Life::checking) {
    return;  // the check that runs is of this node, not of a generation: its result will do
  }
  bool const checked = state.checked_at && turn.now < *state.checked_at + turn.policy.check_holds;
  if (!turn.policy.health_check || checked) {
    state.life = Life::ready;
    turn.act(Tell{rendezvous::Ack{message.generation.number, message.sent, 0}});
  } else {
    state.life = Life::checking;
    state.check = message.generation.number;
    state.check_overdue = false;
    state.deadline = turn.now + turn.policy.check_timeout;
    turn.act(RunCheck{message.generation});
    turn.act(ArmTimer{*state.deadline});
  }
}

void hear(Turn& turn, rendezvous::Start const& message) {
  if (turn.state.life != Life::ready || message.number != number_of(turn.state)) {
    turn.reason = "ignored: start of generation " + std::to_string(message.number);
    return;
  }
  turn.state.life = Life::running;
  turn.state.checked_at.reset();
  turn.act(StartWorkers{*turn.state.generation});
}

void hear(Turn& turn, rendezvous::Stop const& message) {
  State& state = turn.state;
  if (message.number != number_of(state)) {
    turn.reason = "ignored: stop of generation " + std::to_string(message.number);
    return;
  }
  auto const grace = grace_for(message.kind, turn.policy);
  switch (state.life) {
    case Life::running:
      state.life = Life::stopping;
      stop_for_all(turn, message.kind, grace);
      turn.reason = "stopping workers: " + message.why;
      break;
    case Life::checking:
      state.life = Life::stopping;
      turn.act(stop_order(turn, Millis{0}, SIGKILL));
      break;
    case Life::ready:
    case Life::ended:
      state.life = Life::waiting;
      say_stopped(turn);
      break;
    case Life::stopping: turn.act(stop_order(turn, grace, SIGTERM, false)); break;
    case Life::waiting:
    case Life::leaving:
    case Life::aside:
    case Life::farewell:
    case Life::done: break;
  }
}

void hear(Turn& turn, rendezvous::Finished const& message) {
  State& state = turn.state;
  if (state.life == Life::done) {
    return;
  }
  if (has_processes(state.life)) {
    state.connected = false;  // nothing more to tell
    state.exit_code = message.exit_code;
    state.last_line = message.line;
    stop_to_leave(turn, turn.policy.restart_timeout);
    return;
  }
  leave(turn, message.exit_code, message.line);
}

void hear(Turn& turn, rendezvous::Refused const& message) {
  hear(turn, rendezvous::Finished{message.exit_code, "refused by the coordinator: " + message.why});
}

/// A message of the election.
template <class Other>
void hear(Turn& turn, Other const& /*message*/) {
  turn.reason = "ignored: nobody is elected here yet";
}

void on(Turn& turn, FromLink const& event) {
  std::visit([&](auto const& concrete) { hear(turn, concrete); }, event.message);
}

// ---- workers --------------------------------------------------------------------------------------------------

void on(Turn& turn, WorkerEnded const& event) {
  if (event.number == number_of(turn.state) && has_processes(turn.state.life) && !turn.state.check &&
      !event.exit.status.ok() && !event.exit.ours) {
    turn.act(Tell{rendezvous::WorkerFailed{event.number, event.exit}});
  }
}

/// What was being stopped is gone.
void stopped(Turn& turn) {
  State& state = turn.state;
  if (state.life == Life::stopping) {
    state.life = Life::waiting;
    say_stopped(turn);
  } else if (!state.connected) {
    leave(turn, state.exit_code, state.last_line);
  } else {
    say_stopped(turn);
    say_farewell(turn);
  }
}

void check_ended(Turn& turn, GroupEnded const& event) {
  State& state = turn.state;
  state.check.reset();
  if (state.life != Life::checking) {  // it was killed
    stopped(turn);
    return;
  }
  auto const limit = state.check_overdue ? std::optional(turn.policy.check_timeout) : std::nullopt;
  std::string why = explain_check(event.exits, event.unkillable, limit);
  if (why.empty()) {
    state.life = Life::ready;
    state.checked_at = turn.now;
    turn.act(Tell{rendezvous::Ack{number_of(state), 0, 0}});
    return;
  }
  turn.act(Tell{rendezvous::Unfit{number_of(state), why}});
  state.life = Life::aside;
  turn.reason = std::move(why);
}

void on(Turn& turn, GroupEnded const& event) {
  State& state = turn.state;
  if (state.check) {
    if (*state.check == event.number) {
      check_ended(turn, event);
    }
    return;
  }
  if (event.number != number_of(state) || !has_processes(state.life)) {
    return;
  }
  state.owed_at.reset();
  state.exits = event.exits;
  state.unkillable = event.unkillable;
  bool const all_good = event.unkillable.empty() && std::all_of(event.exits.begin(), event.exits.end(),
                                                                [](auto const& exit) { return exit.status.ok(); });
  if (state.life != Life::running) {
    stopped(turn);
    return;
  }
  state.life = Life::ended;
  if (all_good) {
    turn.act(Tell{rendezvous::Succeeded{event.number}});
  }
}

// ---- the outside ----------------------------------------------------------------------------------------------

void on(Turn& turn, LinkDown const& event) {
  State& state = turn.state;
  if (!state.connected || state.life == Life::done) {
    return;
  }
  state.connected = false;
  if (state.life == Life::leaving) {
    return;  // already on its way out, with the code it has
  }
  if (state.life == Life::farewell) {
    leave(turn, state.exit_code, state.last_line);
    return;
  }
  state.exit_code = rendezvous::kExitCoordinatorLost;
  state.last_line = "coordinator lost: " + event.how + "; the job cannot go on without its first node";
  if (has_processes(state.life)) {
    stop_to_leave(turn, turn.policy.restart_timeout);
    turn.reason = state.last_line;
    return;
  }
  leave(turn, state.exit_code, state.last_line);
}

void on(Turn& turn, LinkUp const&) {
  turn.state.joined = true;
}

void on(Turn& /*turn*/, LinkFailed const& /*event*/) {}
void on(Turn& /*turn*/, BeatAnswered const& /*event*/) {}
void on(Turn& /*turn*/, StoodDown const& /*event*/) {}

void on(Turn& turn, EndSignal const& event) {
  State& state = turn.state;
  if (!state.joined && state.life != Life::done) {
    leave(turn, 128 + event.signal, "");  // nobody knows us yet, so nobody has a last word for us
    return;
  }
  if (state.life == Life::leaving || state.life == Life::farewell || state.life == Life::done) {
    turn.reason = "already ending";
    return;
  }
  turn.reason = "told to end by " + signal_name(event.signal);
  state.exit_code = 128 + event.signal;
  turn.act(Tell{rendezvous::Leaving{event.signal}});
  if (has_processes(state.life)) {
    stop_to_leave(turn, turn.policy.end_timeout, event.signal, event.pass_on);
    return;
  }
  if (state.life == Life::ended || state.life == Life::ready) {
    say_stopped(turn);  // the coordinator may have sent stop or start already and waits for this
  }
  say_farewell(turn);
}

void on(Turn& turn, KillSignal const&) {
  if (has_processes(turn.state.life)) {
    if (turn.state.life != Life::leaving) {
      on(turn, EndSignal{SIGINT, false});
    }
    turn.reason = "told to end at once";
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  } else if (turn.state.life != Life::done) {
    leave(turn, turn.state.exit_code, turn.state.last_line);
  }
}

void on(Turn& turn, Tick const&) {
  State& state = turn.state;
  if (state.owed_at && *state.owed_at <= turn.now && has_processes(state.life)) {
    state.owed_at.reset();
    turn.reason = "no signal from Slurm came, sending SIGTERM";
    turn.act(stop_order(turn, turn.policy.end_timeout));
  }
  bool const due = state.deadline && *state.deadline <= turn.now;
  if (due && state.life == Life::farewell) {
    leave(turn, state.exit_code, "no last word from the coordinator");
  } else if (due && state.life == Life::checking && !state.check_overdue) {
    state.check_overdue = true;
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  }
}

}  // namespace

Step step(State state, Event const& event, TimePoint now, Policy const& policy) {
  Step result;
  result.next = std::move(state);
  Turn turn{result.next, result.actions, result.reason, now, policy};
  std::visit([&](auto const& concrete) { on(turn, concrete); }, event);
  return result;
}

}  // namespace cxxrun::launcher::agent
