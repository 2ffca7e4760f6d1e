#include "rendezvous/membership/membership.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/electing.hpp"
#include "rendezvous/membership/entering.hpp"
#include "rendezvous/membership/forming.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/hang_watch.hpp"
#include "rendezvous/membership/leaving.hpp"
#include "rendezvous/membership/proposing.hpp"
#include "rendezvous/membership/redirecting.hpp"
#include "rendezvous/membership/seating.hpp"
#include "rendezvous/membership/stopping.hpp"
#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

// ---- events ---------------------------------------------------------------------------------------------------

/// An agent that has lost us joins anew, and its old connection has only not been judged yet: silent for some beats is
/// enough to let it in. Without beats nobody can tell it from a second agent with the same rank.
void drop_unheard_owner(Turn& turn, NodeInfo const& node) {
  State& state = turn.state;
  auto const owner = node.node_index ? state.index_owner.find(*node.node_index) : state.index_owner.end();
  if (owner == state.index_owner.end() || state.present.at(owner->second).host != node.host) {
    return;
  }
  AgentId const agent = owner->second;
  auto const heard = state.silence.heard.find(agent);
  SilencePolicy const silence{turn.policy.heartbeat_timeout};
  if (heard != state.silence.heard.end() && turn.now - heard->second > silence.period()) {
    turn.act(HangUp{agent});
    lose(turn, Lost{agent, "it has called again"});
  }
}

void on(Turn& turn, Opened const&) {
  if (turn.state.phase == Phase::forming && !turn.state.join_deadline) {
    begin_forming(turn);
  }
}

void on(Turn& turn, Joined const& event) {
  State& state = turn.state;
  drop_unheard_owner(turn, event.node);
  if (auto refused = objection(state, event.node, turn.policy)) {
    if (event.node.node_index) {
      state.came.insert(*event.node.node_index);
    }
    turn.say(Level::warn, "refused " + event.node.host + ": " + refused->why);
    turn.act(Tell{event.agent, *std::move(refused)});
    turn.act(HangUp{event.agent});
    if (state.phase == Phase::finished) {
      close_if_alone(turn);
    }
    return;
  }
  if (come_in(turn, event.agent, event.node) && state.phase == Phase::running) {
    say_spare(turn, event.node);
    tell_decided(turn, event.agent);
  }
}

void on(Turn& turn, Lost const& event) {
  lose(turn, event);
}

void on(Turn& turn, StoreOpened const& event) {
  if (turn.state.phase == Phase::opening && event.number == turn.state.number) {
    begin_preparing(turn, event);
  }
}

void on(Turn& turn, StoreFailed const& event) {
  if (turn.state.phase == Phase::opening && event.number == turn.state.number) {
    conclude(turn, make_verdict(turn.state, turn.policy, End::system_failure, kExitSystem, event.why));
  }
}

void hear(Turn& turn, Seat& seat, Ack const& message) {
  if (turn.state.phase != Phase::preparing || seat.now != Seat::Now::invited) {
    return;
  }
  note_echo(turn, seat.agent, message.echo, message.sent);
  seat.now = Seat::Now::ready;
  if (--turn.state.awaited == 0) {
    begin_deciding(turn);
  }
}

void hear(Turn& turn, Seat& seat, WorkerFailed const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running && state.phase != Phase::stopping) {
    return;
  }
  auto const group_rank = state.seat_of.at(seat.agent);
  state.reports.push_back(Report{group_rank, message.exit});
  if (state.phase == Phase::running) {
    begin_stopping(turn, {StopKind::failure, 0, describe(message.exit, seat.node.host), Level::error});
  }
}

void hear(Turn& turn, Seat& seat, Succeeded const&) {
  State& state = turn.state;
  if (state.phase != Phase::running || seat.now != Seat::Now::running) {
    return;
  }
  seat.now = Seat::Now::succeeded;
  if (--state.awaited == 0) {
    turn.act(CloseStore{state.number});
    conclude(turn, make_verdict(state, turn.policy, End::success, 0, "all workers finished"));
  }
}

void hear(Turn& turn, Seat& seat, Stopped const& message) {
  if (turn.state.phase != Phase::stopping || seat.now == Seat::Now::stopped) {
    return;
  }
  prove_stopped(turn.state.mandate, message.number, turn.state.seat_of.at(seat.agent));
  seat.now = Seat::Now::stopped;
  seat.exits = message.exits;
  seat.unkillable = message.unkillable;
  answered(turn);
}

void hear(Turn& turn, Seat const& seat, Progress const& message) {
  hear_progress(turn, seat, message);
}

void on(Turn& turn, Said const& event) {
  if (auto const* leaving = std::get_if<Leaving>(&event.message)) {
    leave(turn, event.agent, leaving->signal);
    return;
  }
  if (auto const* unfit = std::get_if<Unfit>(&event.message)) {
    set_aside(turn, event.agent, unfit->why);
    return;
  }
  if (auto const* vote = std::get_if<Vote>(&event.message)) {
    hear_vote(turn, event.agent, *vote);
    return;
  }
  if (auto const* accepted = std::get_if<Accepted>(&event.message)) {
    hear_accepted(turn, event.agent, *accepted);
    return;
  }
  Seat* const seat = turn.state.phase == Phase::forming ? nullptr : find_seat(turn.state, event.agent);
  std::visit(
      [&](auto const& message) {
        using Message = std::decay_t<decltype(message)>;
        if constexpr (!std::is_same_v<Message, Leaving> && !std::is_same_v<Message, Unfit> &&
                      !std::is_same_v<Message, Vote> && !std::is_same_v<Message, Accepted>) {
          if (seat == nullptr || message.number != turn.state.number) {
            turn.say(Level::debug, "ignored: message of generation " + std::to_string(message.number) +
                                       " during generation " + std::to_string(turn.state.number));
          } else {
            hear(turn, *seat, message);
          }
        }
      },
      event.message);
}

void on(Turn& turn, Stand const& event) {
  stand(turn, event);
}
void on(Turn& turn, Withdraw const& event) {
  withdraw(turn, event);
}
void on(Turn& turn, Learned const& event) {
  learn(turn, event);
}
void on(Turn& turn, Followed const& event) {
  follow(turn, event);
}
void on(Turn& turn, Buried const& event) {
  bury(turn, event);
}
void on(Turn& turn, Fenced const& event) {
  hear_fenced(turn, event);
}

SilencePolicy silence_policy(Policy const& policy) {
  return {policy.heartbeat_timeout};
}

void on(Turn& turn, Beaten const& event) {
  State& state = turn.state;
  AgentId const agent = event.agent;
  if (state.present.contains(agent) || state.electors.contains(agent) || state.aside.contains(agent) ||
      state.parting.contains(agent)) {
    state.silence = heard(std::move(state.silence), agent, turn.now, silence_policy(turn.policy));
  }
  answer_beat(turn, agent, event.beat);
  try_start(turn);
}

/// An agent whose line for beats has ended opens another with its next beat. One that does not is silent: its host may
/// have died right after, and nothing else would ever tell.
void on(Turn& turn, BeatsEnded const& event) {
  State& state = turn.state;
  if (state.silence.heard.contains(event.agent)) {
    state.silence = heard(std::move(state.silence), event.agent, turn.now, silence_policy(turn.policy));
  }
}

/// Who has been silent for too long is lost, like one whose connection has ended.
void silence_tick(Turn& turn) {
  State& state = turn.state;
  if (!state.silence.due || *state.silence.due > turn.now) {
    return;
  }
  SilenceTick looked = tick(std::move(state.silence), turn.now, silence_policy(turn.policy));
  state.silence = std::move(looked.next);
  if (looked.stalled) {
    turn.say(Level::warn, "this process was suspended: nobody is judged by the silence meanwhile");
  }
  if (!looked.lost.empty() && state.phase == Phase::running && rivalled(state, turn.policy) &&
      left(turn, Count::exactly) <= Millis{0}) {  // it is us who are out of reach: the others may elect without us
    stand_down(turn, "too few members of generation " + std::to_string(state.mandate.decided.number) + " are heard");
    return;
  }
  std::string const how = "silent for " + seconds_text(turn.policy.heartbeat_timeout);
  for (AgentId const agent : looked.lost) {
    if (rivalled(state, turn.policy)) {
      // It may hear us although we do not hear it. An end without a word would be taken for our death (pair rule).
      turn.act(Tell{agent, Dropped{state.number, how}});
    }
    turn.act(HangUp{agent});
    lose(turn, Lost{agent, how});
  }
}

/// The coordinator goes, so the run ends for everybody: gracefully while workers run.
void on(Turn& turn, Quit const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby || state.phase == Phase::electing) {
    stand_down(turn, "told to end by " + signal_name(event.signal));
    return;
  }
  auto const why = "the coordinator was told to end by " + signal_name(event.signal);
  if (state.phase == Phase::running) {
    begin_stopping(turn, {StopKind::user, event.signal, why});
  } else if (state.phase == Phase::stopping) {
    state.stop = {StopKind::user, event.signal, why};
  } else if (state.phase != Phase::finished) {
    state.stop = {StopKind::user, event.signal, why};
    conclude(turn, make_verdict(state, turn.policy, End::stopped, 128 + event.signal, why));
  }
}

void on(Turn& turn, Tick const&) {
  State& state = turn.state;
  silence_tick(turn);
  authority_tick(turn);
  hanging_tick(turn);
  switch (state.phase) {
    case Phase::forming: forming_tick(turn); break;
    case Phase::electing: electing_tick(turn); break;
    case Phase::standby:
    case Phase::deposed:
    case Phase::opening: break;
    case Phase::proposing:
      if (is_due(state.answer_deadline, turn.now)) {
        stand_down(turn, "no quorum accepted generation " + std::to_string(state.mandate.proposal->number));
      }
      break;
    case Phase::gated: try_start(turn); break;
    case Phase::preparing:
    case Phase::stopping:
      if (is_due(state.answer_deadline, turn.now)) {
        drop_silent(turn);
        end_if_abandoned(turn);
      }
      break;
    case Phase::running:
      if (is_due(state.scale_out_at, turn.now)) {
        consider_scale_out(turn);
      }
      break;
    case Phase::finished:
      if (is_due(state.answer_deadline, turn.now)) {
        close(turn);
      }
      break;
  }
}

std::optional<TimePoint> next_deadline(State const& state) {
  auto const common = earliest({state.silence.due, state.mandate.check_at});
  switch (state.phase) {
    case Phase::forming: return earliest({common, state.join_deadline, state.window_deadline});
    case Phase::running: return earliest({common, state.scale_out_at, state.hanging.due});
    case Phase::opening: return common;
    default: return earliest({common, state.answer_deadline});
  }
}

}  // namespace

Step step(State state, Event const& event, TimePoint now, Policy const& policy) {
  auto const armed_before = next_deadline(state);
  Step result;
  result.next = std::move(state);
  Turn turn{result.next, result.actions, result.said, now, policy};
  if (turn.state.phase != Phase::deposed) {
    std::visit([&](auto const& concrete) { on(turn, concrete); }, event);
  }
  for (auto const& action : result.actions) {
    if (auto const* const gone = std::get_if<HangUp>(&action)) {
      result.next.silence = forget(std::move(result.next.silence), gone->agent);
    }
  }
  auto const armed = next_deadline(result.next);
  if (armed && armed != armed_before) {
    result.actions.emplace_back(ArmTimer{*armed});
  }
  return result;
}

}  // namespace cxxrun::rendezvous
