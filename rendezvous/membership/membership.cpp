#include "rendezvous/membership/membership.hpp"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "rendezvous/membership/attendance.hpp"
#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/election.hpp"
#include "rendezvous/membership/ending.hpp"
#include "rendezvous/membership/excluding.hpp"
#include "rendezvous/membership/forming.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/starting.hpp"
#include "rendezvous/membership/workers.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

bool over(State const& state) {
  return state.phase == Phase::finished || state.phase == Phase::deposed;
}

Next begin(Turn& /*turn*/, next::Stay const& /*what*/) {
  return stay;
}

/// Which phase may follow which; the table of phases in docs/design/membership.md. `to` comes before deposed.
[[maybe_unused]] bool may_follow(Phase from, Phase to) {
  switch (to) {
    case Phase::standby: return from == Phase::electing || from == Phase::proposing;
    case Phase::electing: return from == Phase::standby || from == Phase::electing || from == Phase::proposing;
    case Phase::forming: return decides(from) && from != Phase::running && from != Phase::finished;
    case Phase::opening: return from == Phase::forming;
    case Phase::preparing: return from == Phase::opening;
    case Phase::proposing: return from == Phase::preparing || from == Phase::electing;
    case Phase::lease_wait: return from == Phase::preparing || from == Phase::proposing;
    case Phase::running: return from == Phase::lease_wait;
    case Phase::stopping: return from == Phase::running || from == Phase::electing;
    case Phase::finished: return from != Phase::finished;
    case Phase::deposed: break;
  }
  return false;
}

void say_transition(Turn& turn, Phase from) {
  State const& state = turn.state;
  std::string const why = state.phase == Phase::stopping   ? std::string(" (") + name_of(state.group.stop.kind) + ")"
                          : state.phase == Phase::finished ? std::string(" (") + name_of(state.verdict->end) + ")"
                                                           : "";
  turn.say(Level::debug, name_of(state.number) + ": " + name_of(from) + " -> " + name_of(state.phase) + why);
}

/// Begins what follows, then what follows from that, until nothing does. This is the only place where a phase is
/// entered, but for StoppingLate and Deposed. membership_turn.hpp says which file has which begin().
void go_on(Turn& turn, Next next) {
  while (!std::holds_alternative<next::Stay>(next)) {
    Phase const from = turn.state.phase;
    if (next.index() < static_cast<std::size_t>(Phase::deposed)) {
      auto const phase = static_cast<Phase>(next.index());
      assert(may_follow(from, phase));
      turn.state.phase = phase;
    }
    Next const now = std::move(next);
    next = std::visit([&](auto const& what) { return begin(turn, what); }, now);
    if (turn.state.phase != from) {
      say_transition(turn, from);
    }
  }
}

/// For events that one part handles alone: Campaign, Withdraw and Learned in election.cpp, Fenced in starting.cpp,
/// BeatsEnded in leases.cpp.
template <class What>
void on(Turn& turn, What const& event) {
  go_on(turn, handle(turn, event));
}

// ---- agents come and go ---------------------------------------------------------------------------------------

/// Runs `part`, which may remove the agent. If that was the last agent here, the run may be over.
template <class Part>
void take_away(Turn& turn, AgentId agent, Part const& part) {
  bool const was_here = turn.state.roster.present.contains(agent);
  go_on(turn, part());
  if (was_here) {
    go_on(turn, abandoned(turn));
  }
}

void on(Turn& turn, Lost const& event) {
  take_away(turn, event.agent, [&] { return lose(turn, event); });
}

void hang_up_on(Turn& turn, AgentId agent, std::string const& how, Ended ended = Ended::broken) {
  turn.act(HangUp{agent});
  on(turn, Lost{agent, how, ended});
}

/// Returns whether the node waits as a spare now. The caller logs that.
bool let_in(Turn& turn, AgentId agent, NodeInfo const& node) {
  Phase const before = turn.state.phase;
  go_on(turn, come_in(turn, agent, node));
  return before != Phase::forming && turn.state.phase == before;
}

/// An agent that lost its connection joins again while the old connection still counts. If that one has been silent for
/// some beats, it is dropped, so that the agent can join. Without beats the agent may as well be a second one with the
/// same node rank.
void drop_unheard_owner(Turn& turn, NodeInfo const& node) {
  State const& state = turn.state;
  auto const owner = node.node_index ? state.roster.index_owner.find(*node.node_index) : state.roster.index_owner.end();
  if (owner == state.roster.index_owner.end() || state.roster.present.at(owner->second).host != node.host) {
    return;
  }
  auto const heard = state.silence.heard.find(owner->second);
  SilencePolicy const silence{turn.policy.heartbeat_timeout};
  if (heard != state.silence.heard.end() && turn.now - heard->second > silence.period()) {
    hang_up_on(turn, owner->second, "it has called again");
  }
}

/// The end of the job is what the coordinator's own agent says. Without one, in cxxrun-rendezvous, it is what the first
/// agent says that knows. An elected coordinator keeps what it was told itself.
void note_job_end(Turn& turn, Joined const& event) {
  State& state = turn.state;
  bool const own = event.node.coordinates && state.proposer.decided.number == 0;
  if (event.job_end && (own || !state.job_end)) {
    state.job_end = ends_after(*event.job_end, turn.now);
  }
}

void on(Turn& turn, Joined const& event) {
  State& state = turn.state;
  drop_unheard_owner(turn, event.node);
  state.group.unaware.erase(node_key(event.node));
  if (auto refused = objection(state, event.node, turn.policy)) {
    if (event.node.node_index) {
      state.roster.came.insert(*event.node.node_index);
    }
    turn.say(Level::warn, "refused " + event.node.host + ": " + refused->why, "refused");
    turn.act(Tell{event.agent, *std::move(refused)});
    turn.act(HangUp{event.agent});
    if (state.phase == Phase::finished) {
      close_if_alone(turn);
    }
    return;
  }
  note_job_end(turn, event);
  if (state.proposer.decided.number > 0) {  // until it is a member, this tells it who may lead
    tell_decided(turn, event.agent);
  }
  if (let_in(turn, event.agent, event.node) && state.phase == Phase::running) {
    say_spare(turn, event.node);
  }
}

/// The caller is new to this run, or a spare of a lost coordinator, or was dropped by this or an earlier coordinator.
void on_stranger(Turn& turn, AgentId agent, FollowerInfo const& follower_info) {
  State const& state = turn.state;
  auto const stale = std::find_if(state.roster.present.begin(), state.roster.present.end(), [&](auto const& entry) {
    return entry.second.incarnation == follower_info.node.incarnation;
  });
  if (stale != state.roster.present.end()) {  // its old connection was cut, which has not been noticed yet
    hang_up_on(turn, stale->first, "it has called again");
  }
  if (over(state)) {
    return;
  }
  bool const is_member = follower_info.rank || ready_rank(follower_info, state.proposer.decided);
  if (is_member || follower_info.prepared > state.proposer.decided.number) {
    turn.say(Level::warn, follower_info.node.host + " has lost us: it may join again", "dropped");
    turn.state.election.turned_away.insert(node_key(follower_info.node));
    refuse(turn, agent, name_of(state.number) + " goes on here without you");
  } else if (auto const refused = objection(state, follower_info.node, turn.policy)) {
    refuse(turn, agent, refused->why);  // it will join like any other node, and is told what to do
  } else {
    tell_decided(turn, agent);
    if (let_in(turn, agent, follower_info.node)) {
      say_spare(turn, follower_info.node);
    }
  }
}

/// A member is proven dead: what follows in each phase.
Next on_proven_death(Turn& turn) {
  switch (turn.state.phase) {
    case Phase::forming: return consider_forming(turn);
    case Phase::electing: return count_promises(turn);
    case Phase::stopping: return consider_stopped(turn);
    case Phase::lease_wait: return try_start(turn);
    default: return stay;
  }
}

void on(Turn& turn, FollowerCalled const& event) {
  CallResult result = on_follower_call(turn, event);
  if (turn.state.group.unaware.erase(node_key(event.follower_info.node)) > 0 && turn.state.phase == Phase::finished) {
    close_if_alone(turn);  // it has been told the verdict
  }
  go_on(turn, std::move(result.next));
  if (result.as_stranger) {
    on_stranger(turn, event.agent, event.follower_info);
  }
  if (result.new_death) {
    go_on(turn, on_proven_death(turn));
  }
}

void on(Turn& turn, ConfirmedDead const& event) {
  if (event.gone.number == 0) {
    turn.say(Level::debug, "ignored: the death notice of a node that had no seat", "ignored");
    return;
  }
  if (auto const agent = on_death_notice(turn, event.gone)) {
    hang_up_on(turn, *agent, "its parent says that it is dead");
    return;
  }
  go_on(turn, on_proven_death(turn));
}

// ---- what agents say ------------------------------------------------------------------------------------------

/// A message of a member about the current generation. Messages of another generation are ignored. handle() of Ack is
/// in starting.cpp, of WorkerFailed, Succeeded and Progress in workers.cpp, of Stopped in ending.cpp.
template <class Message>
void on_message(Turn& turn, AgentId agent, Message const& message) {
  State& state = turn.state;
  Seat* const seat = state.phase == Phase::forming ? nullptr : find_seat(state, agent);
  if (seat == nullptr || message.number != state.number) {
    turn.say(Level::debug, "ignored: message of " + name_of(message.number) + " during " + name_of(state.number),
             "ignored");
  } else {
    go_on(turn, handle(turn, *seat, message));
  }
}

void on_message(Turn& turn, AgentId agent, Leaving const& message) {
  take_away(turn, agent, [&] { return leave(turn, agent, message); });
}
void on_message(Turn& turn, AgentId agent, Unfit const& message) {
  turn.state.roster.refused = turn.state.roster.refused || message.number == 0;
  take_away(turn, agent, [&] { return exclude_unfit(turn, agent, message.why); });
}
void on_message(Turn& turn, AgentId agent, Complete const& message) {
  go_on(turn, handle(turn, agent, message));
}
void on_message(Turn& turn, AgentId agent, Vote const& message) {
  go_on(turn, on_vote(turn, agent, message));
}
void on_message(Turn& turn, AgentId agent, Accepted const& message) {
  go_on(turn, on_accepted(turn, agent, message));
}

void on(Turn& turn, Said const& event) {
  std::visit([&](auto const& message) { on_message(turn, event.agent, message); }, event.message);
}

// ---- what happens to this coordinator -------------------------------------------------------------------------

void on(Turn& turn, Opened const&) {
  open_ledger(turn.state.ledger, turn.now);
  if (turn.state.phase == Phase::forming && !turn.state.timers.join) {
    go_on(turn, next::Forming{});
  }
}

void on(Turn& turn, StoreOpened const& event) {
  if (turn.state.phase == Phase::opening && event.number == turn.state.number) {
    go_on(turn, next::Preparing{event});
  }
}

void on(Turn& turn, StoreFailed const& event) {
  if (turn.state.phase == Phase::opening && event.number == turn.state.number) {
    go_on(turn, next::Finished{make_verdict(turn.state, turn.policy, End::system_failure, kExitSystem, event.why)});
  }
}

/// The coordinator ends, so the run ends for all agents; gracefully if workers run.
void on(Turn& turn, Quit const& event) {
  State& state = turn.state;
  StopReason const told{StopKind::user, event.signal,
                        "the coordinator was told to end by " + signal_name(event.signal)};
  switch (state.phase) {
    case Phase::standby:
    case Phase::electing: go_on(turn, next::Deposed{"told to end by " + signal_name(event.signal)}); break;
    case Phase::running: go_on(turn, next::Stopping{told}); break;
    case Phase::stopping: state.group.stop = told; break;
    case Phase::finished: break;
    default: state.group.stop = told; go_on(turn, next::Finished{told_to_end(state, turn.policy)});
  }
}

void on(Turn& turn, Wanted const& event) {
  if (auto const why = objection(turn.state, event, turn.policy); !why.empty()) {
    turn.say(Level::debug, "ignored: " + std::string(name_of(event.what)) + ": " + why, "ignored");
    return;
  }
  auto const done = done_by(event);
  turn.tell(story::Wanted{event.number, name_of(event.what), event.by, event.node});
  switch (event.what) {
    case Wanted::What::checkpoint: turn.say(Level::info, done); break;
    case Wanted::What::restart: go_on(turn, next::Stopping{{StopKind::resize, 0, done}}); break;
    case Wanted::What::drain: go_on(turn, stop_to_drain(turn, event.node, done)); break;
    case Wanted::What::stop: go_on(turn, next::Stopping{{StopKind::user, SIGINT, done}}); break;
  }
}

// ---- beats and time -------------------------------------------------------------------------------------------

void on(Turn& turn, Beaten const& event) {
  on_beat(turn, event);
  go_on(turn, try_start(turn));
}

void phase_tick(Turn& turn) {
  State const& state = turn.state;
  bool const overdue = is_due(state.timers.answer, turn.now);
  switch (state.phase) {
    case Phase::forming: go_on(turn, forming_tick(turn)); break;
    case Phase::electing: go_on(turn, electing_tick(turn)); break;
    case Phase::lease_wait: go_on(turn, try_start(turn)); break;
    case Phase::standby:
    case Phase::deposed:
    case Phase::opening: break;
    case Phase::proposing:
      if (overdue) {
        go_on(turn, next::Deposed{"no quorum accepted " + name_of(state.proposer.proposal->number)});
      }
      break;
    case Phase::preparing:
    case Phase::stopping:
      if (overdue) {
        go_on(turn, drop_silent(turn));
        go_on(turn, abandoned(turn));
      } else if (state.phase == Phase::stopping && is_due(state.timers.late, turn.now)) {
        go_on(turn, consider_stopped(turn));
      }
      break;
    case Phase::running:
      if (is_due(state.timers.scale_out, turn.now)) {
        go_on(turn, consider_scale_out(turn));
      }
      break;
    case Phase::finished:
      if (overdue) {
        close(turn);
      }
      break;
  }
}

void on(Turn& turn, Tick const&) {
  Silent silent = silence_tick(turn);
  go_on(turn, std::move(silent.next));
  std::string const how = "silent for " + seconds_text(turn.policy.heartbeat_timeout);
  for (AgentId const agent : silent.agents) {
    if (rivalled(turn.state, turn.policy)) {
      // It may hear us although we do not hear it. By the pair rule, closing without a word would look like our death.
      turn.act(Tell{agent, Dropped{turn.state.number, how}});
    }
    hang_up_on(turn, agent, how, Ended::silent);
  }
  go_on(turn, authority_tick(turn));
  hang_tick(turn);
  leavers_tick(turn);
  go_on(turn, blame_tick(turn));
  phase_tick(turn);
}

/// When to send the next Tick.
std::optional<TimePoint> next_deadline(State const& state) {
  auto const common = earliest({state.silence.due, state.leases.check_at});
  switch (state.phase) {
    case Phase::forming: return earliest({common, state.timers.join, state.timers.window, state.timers.rival});
    case Phase::running:
      return earliest({common, state.timers.scale_out, state.hangs.due, state.blame.due, state.leavers.due});
    case Phase::stopping: return earliest({common, state.timers.answer, state.timers.late});
    case Phase::opening: return common;
    default: return earliest({common, state.timers.answer});
  }
}

}  // namespace

std::string objection(State const& state, Wanted const& wanted, Policy const& policy) {
  if (state.phase != Phase::running || wanted.number != state.number) {
    return name_of(wanted.number) + " does not run now";
  }
  return wanted.what == Wanted::What::drain ? objection_to_drain(state, wanted.node, policy) : "";
}

Step step(State state, Event const& event, TimePoint now, Policy const& policy) {
  auto const armed_before = next_deadline(state);
  Step result;
  result.next = std::move(state);
  Turn turn{{result.next, result.actions, result.said, now, policy}, result.story};
  if (turn.state.phase != Phase::deposed) {
    std::visit([&](auto const& concrete) { on(turn, concrete); }, event);
  }
  for (auto const& action : result.actions) {
    if (auto const* const gone = std::get_if<HangUp>(&action)) {
      forget(result.next.silence, gone->agent);
    }
  }
  auto const armed = next_deadline(result.next);
  if (armed && armed != armed_before) {
    result.actions.emplace_back(ArmTimer{*armed});
  }
  return result;
}

}  // namespace cxxrun::rendezvous
