#include <algorithm>
#include <cassert>

#include "launcher/life/agent_turn.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "rendezvous/values/verdict.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::agent {

namespace follower = rendezvous::follower;

bool has_processes(Life life) {
  return life == Life::running || life == Life::checking || life == Life::stopping || life == Life::leaving ||
         life == Life::fenced;
}

bool has_anybody(State const& state) {
  return has_processes(state.life) || state.parked;
}

std::uint64_t number_of(State const& state) {
  return state.generation ? state.generation->number : 0;
}

void leave(Turn& turn, int code, std::string line) {
  clear_death_notice(turn);
  if (turn.state.follower.search || turn.state.follower.recall) {
    turn.delegate([](auto& inner) { follower::abandon(inner, "this agent ends"); });
  }
  turn.state.exit_code = code;
  if (turn.state.parked) {
    turn.state.connected = false;  // nothing more to tell
    turn.state.last_line = std::move(line);
    turn.state.life = Life::leaving;
    stop_waiting(turn);
    return;
  }
  turn.state.life = Life::done;
  turn.act(Exit{code, std::move(line)});
}

void say_stopped(Turn& turn) {
  if (turn.state.connected) {
    turn.tell(rendezvous::Stopped{number_of(turn.state), turn.state.exits, turn.state.unkillable,
                                  ago(turn.state.steps, turn.now), turn.state.lacks});
  }
}

void rest(Turn& turn) {
  bool const drained = !turn.state.unfit.empty();
  turn.state.life = drained ? Life::excluded : Life::waiting;
  say_stopped(turn);
  if (drained) {
    turn.say_here(Level::warn, "excluded: " + turn.state.unfit);
  }
}

void say_farewell(Turn& turn) {
  clear_death_notice(turn);
  turn.state.life = Life::farewell;
  turn.state.deadline = turn.now + turn.policy.farewell_timeout;
  turn.state.stays_until = turn.now + turn.policy.voting_timeout;
}

void stay_to_vote(Turn& turn) {
  State& state = turn.state;
  auto const& known = state.follower.decided;
  if (state.life == Life::farewell && state.deadline && state.stays_until && known.rank && known.survives) {
    auto const answered = turn.now + turn.policy.farewell_timeout;
    state.deadline = std::max(*state.deadline, std::min(answered, *state.stays_until));
  }
}

StopWorkers stop_order(Turn const& turn, Millis grace, int signal, bool send_signal) {
  return StopWorkers{StopOrder{signal, send_signal, grace, turn.policy.kill_timeout}};
}

StopWorkers park_order(Turn const& turn, Millis grace, bool send_signal) {
  auto stop = stop_order(turn, grace, SIGTERM, send_signal);
  stop.order.park = turn.state.parks;
  return stop;
}

void stop_waiting(Turn& turn) {
  turn.state.parks = false;
  turn.act(stop_order(turn, turn.policy.restart_timeout));
}

void stop_to_leave(Turn& turn, Millis grace, int signal, bool send_signal) {
  Life const before = std::exchange(turn.state.life, Life::leaving);
  bool const kept = std::exchange(turn.state.parks, false) || turn.state.parked;  // workers without a signal so far
  bool const unsignalled = before == Life::running || turn.state.owed_at || kept;
  turn.state.owed_at.reset();
  if (before == Life::checking) {
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  } else {
    turn.act(stop_order(turn, grace, signal, send_signal && unsignalled));
  }
}

void start_workers(Turn& turn) {
  State& state = turn.state;
  assert(state.generation);
  state.life = Life::running;
  state.checked_at.reset();
  state.workers = true;
  state.living = state.generation->local_size;
  state.left.clear();
  state.left_due.reset();
  state.killed = false;
  state.parks = false;
  state.parked.reset();
  hold_lease(turn);  // before anything runs
  write_death_notice(turn);
  auto const& g = *state.generation;
  auto const last = g.rank_base + g.local_size - 1;
  turn.say_here(Level::info, "generation " + std::to_string(g.number) + ": starting rank" +
                                 (g.local_size == 1 ? " " : "s " + std::to_string(g.rank_base) + " to ") +
                                 std::to_string(last));
  turn.act(StartWorkers{g});
}

void acknowledge(Turn& turn) {
  turn.state.life = Life::ready;
  turn.tell(turn.delegate([&](auto& inner) { return follower::ready(inner, *turn.state.generation); }));
}

void on_worker_ended(Turn& turn, WorkerEnded const& event) {
  // It has ended with 0 before, and was counted then; now it turns out that other ranks still need it.
  bool const missed = event.exit.status.ok() && !event.exit.hung.empty();
  if (event.number == number_of(turn.state) && !turn.state.check && turn.state.living > 0 && !missed) {
    --turn.state.living;
    bool const left = event.exit.status.ok() && !event.exit.ours && turn.state.life == Life::running;
    if (left && turn.state.living > 0) {  // after the last one the coordinator is told at once (on_group_ended)
      turn.state.left.push_back(event.exit.rank);
      turn.state.left_due = turn.state.left_due.value_or(turn.now + rendezvous::kLeftFor);
    }
  }
  if (event.number == number_of(turn.state) && has_processes(turn.state.life) && !turn.state.check &&
      (missed || !event.exit.status.ok()) && !event.exit.ours) {
    turn.tell(rendezvous::WorkerFailed{event.number, event.exit});
  }
}

namespace {

/// Workers were killed for their lease, by this agent or its parent, without an order of the coordinator. WorkerEnded
/// does not report such a death (`ours`), and the coordinator would wait for them for ever.
void tell_killed(Turn& turn) {
  State& state = turn.state;
  auto const& exits = state.exits;
  auto const failed = std::ranges::find_if(exits, [](auto const& exit) { return !exit.status.ok(); });
  if (failed != exits.end()) {
    turn.tell(rendezvous::WorkerFailed{number_of(state), *failed});
  }
}

/// The processes that were being stopped are gone.
void on_stopped(Turn& turn) {
  State& state = turn.state;
  bool const keeps = state.life == Life::stopping && state.parks;
  if (state.parked && !keeps) {  // workers parked in time, but a later order keeps none
    stop_waiting(turn);
  } else if (state.rejoin && state.life != Life::leaving) {
    rejoin(turn);
  } else if (state.life == Life::stopping) {
    rest(turn);
  } else if (state.life == Life::fenced) {
    state.life = Life::ended;
    tell_killed(turn);
  } else if (!state.connected) {
    leave(turn, state.exit_code, state.last_line);
  } else {
    say_stopped(turn);
    say_farewell(turn);
  }
}

void on_check_ended(Turn& turn, GroupEnded const& event) {
  State& state = turn.state;
  state.check.reset();
  if (state.life != Life::checking) {  // it was killed
    on_stopped(turn);
    return;
  }
  auto const limit = state.check_overdue ? std::optional(turn.policy.check_timeout) : std::nullopt;
  std::string why = explain_check(event.exits, event.unkillable, limit);
  if (why.empty()) {
    state.checked_at = turn.now;
    acknowledge(turn);
    return;
  }
  turn.tell(rendezvous::Unfit{number_of(state), why});
  state.life = Life::excluded;
  state.unfit = why;
  turn.say_here(Level::warn, "excluded: " + why);
}

}  // namespace

void on_group_ended(Turn& turn, GroupEnded const& event) {
  State& state = turn.state;
  if (state.check) {
    if (*state.check == event.number) {
      on_check_ended(turn, event);
    }
    return;
  }
  bool const again = state.parked == event.number;
  if ((event.number != number_of(state) && !again) || !has_processes(state.life)) {
    return;
  }
  state.owed_at.reset();
  state.workers = false;
  state.frozen.reset();
  state.parked = event.waiting ? std::optional(event.number) : std::nullopt;
  if (again) {
    state.unkillable.insert(state.unkillable.end(), event.unkillable.begin(), event.unkillable.end());
    on_stopped(turn);
    return;
  }
  state.exits = event.exits;
  state.unkillable = event.unkillable;
  state.steps = event.steps;
  state.lacks = event.lacks && !turn.policy.health_check;  // a check needs the node to itself
  // A process that a worker has left behind, and that survives SIGKILL, does not undo the workers' success.
  bool const all_good = std::ranges::all_of(event.exits, [](auto const& exit) { return exit.status.ok(); });
  if (state.life != Life::running) {
    on_stopped(turn);
  } else {
    state.life = Life::ended;
    if (all_good) {
      turn.tell(rendezvous::Succeeded{event.number, ago(state.steps, turn.now)});
    } else if (std::ranges::all_of(event.exits, [](auto const& exit) { return exit.ours || exit.status.ok(); })) {
      tell_killed(turn);
    }
  }
  if (state.life != Life::done && state.follower.search) {
    turn.delegate([](auto& inner) { follower::tell_again(inner); });
  }
}

void on_filled(Turn& turn, Filled const& event) {
  if (turn.state.parked != event.number || turn.state.life != Life::waiting) {
    return;
  }
  turn.say_here(Level::info, event.whole ? "all workers of this node wait for the next generation"
                                         : "a restarted worker has ended: it starts again with the next generation");
  turn.tell(rendezvous::Complete{event.number});
}

namespace {

/// For the line about a signal to end: what this agent still waits for.
std::string explain_wait(State const& state, Policy const& policy, bool ctrl_c) {
  bool const none = state.living == 0 || !has_anybody(state) || state.life == Life::fenced || state.check;
  if (none || policy.end_timeout <= Millis{0}) {
    return "";
  }
  bool const begins = state.life == Life::running || state.parks || state.parked;
  std::string const workers = counted(state.living, "worker");
  return (begins ? ": waiting up to " + seconds_text(policy.end_timeout) + " for " + workers
                 : ": workers are being stopped already") +
         (ctrl_c ? "; Ctrl-C again kills them" : "");
}

}  // namespace

void on_end_signal(Turn& turn, EndSignal const& event) {
  State& state = turn.state;
  if (!state.joined && state.life != Life::done) {
    leave(turn, 128 + event.signal, "");  // no coordinator knows this agent: no final message can come
    return;
  }
  if (state.life == Life::leaving || state.life == Life::farewell || state.life == Life::done) {
    turn.say(Level::debug, "already ending");
    return;
  }
  turn.say(Level::info, "told to end by " + signal_name(event.signal) + (event.from.empty() ? "" : " " + event.from) +
                            explain_wait(state, turn.policy, event.ctrl_c));
  state.exit_code = 128 + event.signal;
  state.held = false;      // a lease that comes now starts nothing
  if (!state.connected) {  // there is no coordinator: no final message can come
    turn.delegate([](auto& inner) { follower::abandon(inner, "this agent was told to end"); });
    if (has_processes(state.life)) {
      stop_to_leave(turn, turn.policy.end_timeout, event.signal, event.pass_on);
    } else {
      leave(turn, state.exit_code, "");
    }
    return;
  }
  turn.tell(rendezvous::Leaving{event.signal, event.from});
  if (has_anybody(state)) {
    stop_to_leave(turn, turn.policy.end_timeout, event.signal, event.pass_on);
    return;
  }
  if (state.life == Life::ended || state.life == Life::ready) {
    say_stopped(turn);  // the coordinator may have sent stop or start already, and waits for the answer
  }
  say_farewell(turn);
}

void on_kill_signal(Turn& turn) {
  if (has_anybody(turn.state)) {
    if (turn.state.life != Life::leaving) {
      on_end_signal(turn, EndSignal{SIGINT, false});
    }
    turn.say(Level::info, "told to end at once");
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  } else if (turn.state.life != Life::done) {
    leave(turn, turn.state.exit_code, turn.state.last_line);
  }
}

}  // namespace cxxrun::launcher::agent
