#include <variant>

#include "launcher/life/agent_turn.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher::agent {

namespace follower = rendezvous::follower;
using rendezvous::StopKind;

namespace {

/// Makes one visitor of several lambdas.
template <class... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <class... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;

Millis grace_for(StopKind kind, Policy const& policy) {
  switch (kind) {
    case StopKind::failure: return policy.restart_timeout;
    case StopKind::resize:
    case StopKind::drain: return policy.shutdown_timeout;
    case StopKind::user: return policy.end_timeout;
  }
  return policy.restart_timeout;
}

/// Stops the workers on the coordinator's order. If Slurm signals the workers of every node itself, a stop by the user
/// brings its signal here, too, only later: ours would be a second one, so it waits. If the job may go on here, workers
/// that survive are kept, except with a health check, which needs the node to itself.
void stop_for_all(Turn& turn, StopKind kind, Millis grace) {
  bool const wait = kind == StopKind::user && turn.policy.slurm_signals_all;
  turn.state.parks = kind != StopKind::user && kind != StopKind::drain && !turn.policy.health_check;
  turn.act(park_order(turn, grace, !wait));
  if (wait) {
    turn.state.owed_at = turn.now + turn.policy.slurm_patience;
  }
}

// ---- messages of the coordinator ------------------------------------------------------------------------------

void on_prepare(Turn& turn, rendezvous::Prepare const& message) {
  State& state = turn.state;
  turn.delegate([&](auto& inner) { follower::heard(inner, message.sent); });
  if (state.life == Life::excluded && state.follower.main != kFirstLink) {  // a new coordinator does not know it yet
    turn.tell(rendezvous::Unfit{message.generation.number, state.unfit});
    return;
  }
  if (state.frozen && message.generation.number > number_of(state)) {
    kill_workers(turn, "they are frozen, and a later generation is prepared");
  }
  bool const free = state.life == Life::waiting || state.life == Life::ready || state.life == Life::checking ||
                    state.life == Life::ended;
  if (!free || message.generation.number <= number_of(state)) {
    turn.say(Level::debug,
             "ignored: generation " + std::to_string(message.generation.number) + " offered in mid-generation");
    return;
  }
  state.generation = message.generation;
  state.follower.prepared_sent = message.sent;
  state.follower.job_began = turn.now - message.generation.decree.history.account.total();
  if (message.job_end) {
    state.follower.job_end = rendezvous::ends_after(*message.job_end, turn.now);
  }
  state.held = false;
  state.exits.clear();
  state.unkillable.clear();
  state.steps = {};
  state.lacks = false;
  if (state.life == Life::checking) {
    return;  // the check that runs is of the node, not of a generation: its result counts for this one
  }
  bool const checked = state.checked_at && turn.now < *state.checked_at + turn.policy.check_holds;
  if (!turn.policy.health_check || checked) {
    acknowledge(turn);
  } else {
    state.life = Life::checking;
    state.check = message.generation.number;
    state.check_overdue = false;
    state.deadline = turn.now + turn.policy.check_timeout;
    turn.act(RunCheck{message.generation});
  }
}

void on_start(Turn& turn, rendezvous::Start const& message) {
  if (turn.state.life != Life::ready || message.number != number_of(turn.state)) {
    turn.say(Level::debug, "ignored: start of generation " + std::to_string(message.number));
    return;
  }
  turn.delegate([&](auto& inner) { follower::started(inner, message.number); });
  take_lease(turn, message);
  if (turn.state.held) {
    turn.say(Level::warn, "the lease of this start has run out already: waiting for a new one");
    return;
  }
  start_workers(turn);
}

void on_stop(Turn& turn, rendezvous::Stop const& message) {
  State& state = turn.state;
  if (message.number < number_of(state) && !turn.may_have_workers()) {
    turn.tell(rendezvous::Stopped{message.number, {}, {}, {}});  // nothing of that older generation runs
    return;
  }
  if (message.number != number_of(state)) {
    turn.say(Level::debug, "ignored: stop of generation " + std::to_string(message.number));
    return;
  }
  if (message.kind == StopKind::drain) {
    state.unfit = message.why;
  }
  auto const grace = grace_for(message.kind, turn.policy);
  switch (state.life) {
    case Life::running:
      state.life = Life::stopping;
      stop_for_all(turn, message.kind, grace);
      turn.say_here(Level::info, "stopping workers: " + message.why);
      break;
    case Life::checking:
      state.life = Life::stopping;
      turn.act(stop_order(turn, Millis{0}, SIGKILL));
      break;
    case Life::ready:
    case Life::ended:
      state.held = false;
      rest(turn);
      break;
    case Life::stopping:
      if (state.parks && message.kind == StopKind::user) {
        stop_for_all(turn, message.kind, grace);
      } else {
        turn.act(park_order(turn, grace, false));
      }
      break;
    case Life::fenced: state.life = Life::stopping; break;
    case Life::waiting:
    case Life::excluded: say_stopped(turn); break;  // to a coordinator that took over: the earlier one knows it
    case Life::leaving:
    case Life::farewell:
    case Life::done: break;
  }
}

void on_finished(Turn& turn, rendezvous::Finished const& message) {
  State& state = turn.state;
  if (state.life == Life::done) {
    return;
  }
  for (auto const& exit : state.exits) {
    if (message.first_failure == exit.rank && !exit.status.ok()) {
      turn.act(HandErrorFile{number_of(state), exit});
    }
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

void on_refused(Turn& turn, rendezvous::Refused const& message) {
  if (message.exit_code == kExitCoordinatorLost && follower::can_search(turn.state.follower)) {
    lose_coordinator(turn, message.why);  // it has stepped down after its greeting
    return;
  }
  if (message.exit_code == kExitCoordinatorLost && may_look_again(turn)) {  // stepped down, or no run there yet
    turn.delegate([](auto& inner) { follower::abandon(inner, "nobody coordinates there"); });
    look_again(turn, "refused by the coordinator: " + message.why);
    return;
  }
  on_finished(turn, rendezvous::Finished{message.exit_code, "refused by the coordinator: " + message.why});
}

void on_kill(Turn& turn, rendezvous::Kill const& message) {
  State const& state = turn.state;
  bool const mine = state.life == Life::running && !state.frozen && message.number == number_of(state) &&
                    message.rank >= state.generation->rank_base &&
                    message.rank - state.generation->rank_base < state.generation->local_size;
  if (!mine) {
    turn.say(Level::debug, "ignored: rank " + std::to_string(message.rank) + " is to be killed in generation " +
                               std::to_string(message.number));
    return;
  }
  turn.act(KillWorker{message.rank - state.generation->rank_base, message});
}

void on_left_out(Turn& turn, rendezvous::LeftOut const& message) {
  State& state = turn.state;
  if (state.life != Life::waiting || !std::exchange(state.lacks, false) || !state.generation) {
    turn.say(Level::debug, "ignored: left out of generation " + std::to_string(message.number));
    return;
  }
  turn.say_here(Level::info, "generation " + std::to_string(message.number) +
                                 " continues without this node, which starts its missing workers");
  state.parked = number_of(state);
  turn.act(FillWorkers{*state.generation});
}

/// Votes are the follower's. Orders about workers are obeyed if their sender leads or takes over the lead; `kill` and
/// `left_out` only from the coordinator that leads already.
void on_message(Turn& turn, FromLink const& event) {
  bool const from_coordinator = event.link == turn.state.follower.main && turn.state.connected;
  auto const leads = [&] { return accept_lead(turn, event.link, event.message); };
  auto const vote = [&](auto const& message) {
    turn.delegate([&](auto& inner) { follower::hear(inner, event.link, message); });
  };
  std::visit(Overloaded{
                 [&](rendezvous::Prepare const& message) { leads() ? on_prepare(turn, message) : void(); },
                 [&](rendezvous::Start const& message) { leads() ? on_start(turn, message) : void(); },
                 [&](rendezvous::Stop const& message) { leads() ? on_stop(turn, message) : void(); },
                 [&](rendezvous::Finished const& message) { leads() ? on_finished(turn, message) : void(); },
                 [&](rendezvous::Refused const& message) { leads() ? on_refused(turn, message) : void(); },
                 [&](rendezvous::Kill const& message) { from_coordinator ? on_kill(turn, message) : void(); },
                 [&](rendezvous::LeftOut const& message) { from_coordinator ? on_left_out(turn, message) : void(); },
                 [&](rendezvous::Decided const& message) { on_decided(turn, event.link, message); },
                 [&](rendezvous::Dropped const& message) { on_dropped(turn, event.link, message); },
                 [&](rendezvous::VoteRequest const& message) { vote(message); },
                 [&](rendezvous::Propose const& message) { vote(message); },
             },
             event.message);
}

// ---- connections, stalled workers, the timer ------------------------------------------------------------------

void on_link_down(Turn& turn, LinkDown const& event) {
  State& state = turn.state;
  if (event.link != state.follower.main) {
    turn.delegate([&](auto& inner) { follower::link_down(inner, event.link); });
  } else if (state.connected) {
    if (auto const it = state.follower.links.find(event.link); it != state.follower.links.end()) {
      it->second.ended = true;
    }
    lose_coordinator(turn, event.how, event.ended);
  }
}

void on_link_up(Turn& turn, LinkUp const& event) {
  turn.state.joined = turn.state.joined || event.link == turn.state.follower.main;
  turn.delegate([&](auto& inner) { follower::link_up(inner, event.link, event.coordinator, event.relayed); });
  turn.state.connected = turn.state.connected || event.link == turn.state.follower.main;
}

void on_link_failed(Turn& turn, LinkFailed const& event) {
  if (event.link == turn.state.follower.main) {
    if (!turn.state.joined && !follower::can_search(turn.state.follower)) {  // after Rejoin: nothing runs here
      leave(turn, kExitCoordinatorLost, "coordinator lost: cannot join again: " + event.why);
    } else if (turn.state.connected) {
      lose_coordinator(turn, event.why);
    }
    return;
  }
  turn.delegate([&](auto& inner) { follower::link_failed(inner, event.link, event.refused); });
  give_up_recall(turn);
}

void on_beat_answered(Turn& turn, BeatAnswered const& event) {
  turn.delegate([&](auto& inner) { follower::answered(inner, event.link, event.ack); });
  if (event.link == turn.state.follower.main && turn.state.connected) {
    renew_lease(turn, event.ack);
    stay_to_vote(turn);
  }
}

void on_stepped_down(Turn& turn, SteppedDown const& event) {
  if (event.campaign_id < turn.state.follower.campaign_id) {
    turn.say(Level::debug, "ignored: the end of an earlier campaign");
  } else if (turn.state.follower.search) {
    turn.delegate([](auto& inner) { follower::stepped_down(inner); });
  } else if (turn.state.connected && follower::leads(turn.state.follower)) {
    lose_coordinator(turn, "this agent no longer coordinates: " + event.why);
  }
}

void on_stood_still(Turn& turn, StoodStill const& event) {
  if (turn.state.life == Life::running && event.number == number_of(turn.state)) {
    turn.tell(rendezvous::Progress{event.number, event.workers, event.named});
  }
}

void on_tick(Turn& turn) {
  State& state = turn.state;
  if (state.owed_at && *state.owed_at <= turn.now && has_processes(state.life)) {
    state.owed_at.reset();
    turn.say(Level::info, "no signal from Slurm came, sending SIGTERM");
    turn.act(stop_order(turn, turn.policy.end_timeout));
  }
  bool const due = is_due(state.deadline, turn.now);
  if (due && state.life == Life::farewell) {
    leave(turn, state.exit_code, "no final message from the coordinator");
    return;
  }
  if (due && state.life == Life::checking && !state.check_overdue) {
    state.check_overdue = true;
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  }
  if (state.life == Life::running && is_due(state.left_due, turn.now)) {
    state.left_due.reset();
    turn.tell(rendezvous::Progress{number_of(state), {}, {}, std::exchange(state.left, {})});
  }
  on_following_tick(turn);
}

/// Which function handles which event.
void on_event(Turn& turn, Event const& event) {
  std::visit(Overloaded{
                 [&](LinkUp const& up) { on_link_up(turn, up); },
                 [&](LinkDown const& down) { on_link_down(turn, down); },
                 [&](LinkFailed const& failed) { on_link_failed(turn, failed); },
                 [&](FromLink const& message) { on_message(turn, message); },
                 [&](BeatAnswered const& answer) { on_beat_answered(turn, answer); },
                 [&](SteppedDown const& stepped_down) { on_stepped_down(turn, stepped_down); },
                 [&](WorkerEnded const& ended) { on_worker_ended(turn, ended); },
                 [&](GroupEnded const& ended) { on_group_ended(turn, ended); },
                 [&](Filled const& filled) { on_filled(turn, filled); },
                 [&](StoodStill const& still) { on_stood_still(turn, still); },
                 [&](EndSignal const& signal) { on_end_signal(turn, signal); },
                 [&](KillSignal const&) { on_kill_signal(turn); },
                 [&](Tick const&) { on_tick(turn); },
             },
             event);
}

// ---- the timer ------------------------------------------------------------------------------------------------

std::optional<TimePoint> next_deadline(State const& state, Policy const& policy) {
  bool const waits = state.life == Life::farewell || (state.life == Life::checking && !state.check_overdue);
  return earliest({follower::due(state.follower, policy), lease_due(state), waits ? state.deadline : std::nullopt,
                   has_processes(state.life) ? state.owed_at : std::nullopt,
                   state.life == Life::running ? state.left_due : std::nullopt});
}

void arm(Turn& turn) {
  auto const next = next_deadline(turn.state, turn.policy);
  if (next && next != turn.state.armed) {
    turn.state.armed = next;
    turn.act(ArmTimer{*next});
  }
}

/// A timer that rings late means that this process was suspended, and perhaps the other nodes, too.
void notice_suspension(Turn& turn, bool tick) {
  State& state = turn.state;
  if (!state.armed) {
    return;
  }
  auto const late = turn.now - *state.armed;
  auto const& lease = turn.policy.lease;
  turn.late = lease.lease > Millis{0} && late > lease.lease / 2;
  if (lease.timeout > Millis{0} && late > lease.timeout / 5) {
    turn.delegate([](auto& inner) { follower::excuse_silence(inner); });
  }
  if (tick && *state.armed <= turn.now) {
    state.armed.reset();
  }
}

}  // namespace

Step step(State state, Event const& event, TimePoint now, Policy const& policy) {
  Step result;
  result.next = std::move(state);
  Turn turn{{result.next, result.actions, result.said, now, policy}};
  if (result.next.life == Life::done) {
    return result;
  }
  notice_suspension(turn, std::holds_alternative<Tick>(event));
  check_lease(turn);
  on_event(turn, event);
  State& next = result.next;
  if (next.frozen && (next.life != next.frozen_in || !next.connected)) {
    kill_workers(turn, "they are frozen, and to be stopped");
  }
  hold_lease(turn);
  if (next.life != Life::done) {
    arm(turn);
  }
  return result;
}

}  // namespace cxxrun::launcher::agent
