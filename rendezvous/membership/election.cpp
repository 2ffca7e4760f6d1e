#include "rendezvous/membership/election.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "rendezvous/history/restarts.hpp"
#include "rendezvous/membership/ending.hpp"
#include "rendezvous/membership/forming.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"

namespace cxxrun::rendezvous {

// ---- taking over: the elected coordinator rebuilds the generation of the lost one -----------------------------

namespace {

/// Watches for silence before the agent's first beat to us, because nothing else would show that it died. The first
/// beat has twice the timeout: all agents of the job may be opening connections at the same time.
void await_first_beat(Turn& turn, AgentId agent) {
  auto& silence = turn.state.silence;
  if (!silence.heard.contains(agent)) {
    Millis const timeout = turn.policy.heartbeat_timeout;
    heard(silence, agent, turn.now + timeout, SilencePolicy{timeout});
  }
}

/// Gives a follower the seat that it had. Returns whether its workers may still run: then it has to stop them.
bool seat_follower(Turn& turn, AgentId agent, std::uint32_t rank) {
  State& state = turn.state;
  FollowerInfo const follower_info = state.election.followers.at(agent);
  assert(rank < state.group.seats.size());
  Seat& seat = state.group.seats[rank];
  seat.agent = agent;
  seat.node = follower_info.node;
  seat.now = follower_info.workers ? Seat::Now::running : Seat::Now::stopped;
  state.group.seat_of[agent] = rank;
  state.election.missing.erase(rank);
  state.roster.gone.erase(host_at(state, rank));
  enter(state, agent, follower_info.node);
  await_first_beat(turn, agent);
  if (!follower_info.workers) {
    note_steps(state.ledger, follower_info.steps, turn.now);
    state.leases.outstanding.erase(Held{state.proposer.decided.number, rank});
  }
  return follower_info.workers;
}

/// Ends its search for a coordinator. It gets no other message until the next generation is formed.
void tell_follower(Turn& turn, AgentId agent) {
  turn.act(Tell{agent, Decided{turn.state.proposer.decided, {}}});
}

/// Sets up the seats of the generation taken over, all of them missing, and when their workers are dead for certain.
void reconstruct(Turn& turn) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  Leases& leases = state.leases;
  Decree const& decided = proposer.decided;
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  TimePoint const until = election.last_contact.value_or(turn.now) + terms.fence;
  vacate_seats(state);
  state.group.reports.clear();
  for (std::uint32_t rank = 0; rank < decided.size; ++rank) {
    election.missing.insert(rank);
    if (leases_on(turn.policy)) {
      Held const held{decided.number, rank};
      auto const dead = election.dead.find(held);
      leases.outstanding[held] = dead == election.dead.end() ? until : std::min(until, dead->second);
    }
  }
  std::optional<Millis> begun_for;
  bool lived = false;
  for (auto const& [agent, rank] : election.voters) {
    if (auto const voter = election.followers.find(agent); voter != election.followers.end()) {
      begun_for = std::max(begun_for, voter->second.begun_for);
      lived = lived || voter->second.workers;
    }
  }
  if (leases_on(turn.policy) && !begun_for) {  // workers of the generation before `decided` may still run somewhere
    leases.outstanding[Held{0, 0}] = until;
  }
  if (begun_for) {  // it has run, since when is unknown here: the account goes on without a gap
    start_generation(state.ledger, *state.ledger.start + state.ledger.history.account.total());
  }
  if (lived || begun_for >= turn.policy.long_enough) {
    state.restarts.streak = {};
  } else {
    state.timers.restart = turn.now + delay_after(state.restarts.streak, turn.policy);
  }
}

/// Elected, and nothing was accepted before: members that have promised keep their seats and stop their workers.
Next take_over(Turn& turn) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  state.number = proposer.decided.number;
  state.ever_ran = true;
  election.succession = Succession::happened;
  // By the pair rule the survivor goes on with a number 100 higher (docs/design/election.md).
  election.seen += proposer.right == Right::survivor ? 99 : 0;
  turn.tell(story::TookOver{state.number, state.ledger.history, proposer.ballot});
  reconstruct(turn);
  auto const voters = election.voters;
  for (auto const& [agent, rank] : voters) {
    if (proposer.promised.contains(rank) && election.missing.contains(rank) && !seat_follower(turn, agent, rank)) {
      tell_follower(turn, agent);
    }
  }
  auto const others = state.election.followers;
  for (auto const& [agent, follower_info] : others) {
    if (!follower_info.rank && follower_info.decided.number == proposer.decided.number) {
      enter(state, agent, follower_info.node);
      await_first_beat(turn, agent);
      tell_follower(turn, agent);
    }
  }
  for (std::uint32_t const rank : election.missing) {
    state.roster.gone.emplace(host_at(state, rank), host_at(state, rank));
    if (turn.policy.oom_kills_step && election.dead.contains(Held{state.number, rank})) {  // its host lives
      state.roster.perhaps_oom.insert(host_at(state, rank));
    }
  }
  return next::Stopping{
      {StopKind::failure, 0, "coordinator lost: " + host_at(state, proposer.decided.coordinator), Level::warn}};
}

/// A member that called late has promised, too, before the next generation was formed: it keeps its seat.
Next take_in_late(Turn& turn, AgentId agent) {
  State& state = turn.state;
  Election& election = state.election;
  auto const rank = election.voters.at(agent);
  if (!state.election.followers.contains(agent) || !election.missing.contains(rank)) {
    return stay;
  }
  turn.say(Level::info, "node " + std::to_string(rank) + " has called too", "called");
  if (!seat_follower(turn, agent, rank)) {
    tell_follower(turn, agent);
    return state.phase == Phase::forming ? consider_forming(turn) : consider_stopped(turn);
  }
  return next::StoppingLate{agent};
}

}  // namespace

// ---- the vote -------------------------------------------------------------------------------------------------

namespace {

/// A voter that has not promised is not proven dead: it may only notice the loss late.
bool may_come(State const& state) {
  Proposer const& proposer = state.proposer;
  for (std::uint32_t rank = 0; rank < proposer.decided.size; ++rank) {
    if (!proposer.promised.contains(rank) && !state.election.dead.contains(Held{proposer.decided.number, rank})) {
      return true;
    }
  }
  return false;
}

/// The pair rule: the only other member is proven dead, so the promise of our own agent is enough.
bool alone(State const& state) {
  return state.election.two_nodes && state.proposer.decided.size == 2 && state.proposer.promised.size() == 1 &&
         !may_come(state);
}

/// A later decision than ours is known: tells all agents here and steps down.
Next yield_to(Turn& turn, Decree const& later) {
  for (auto const& [agent, follower_info] : turn.state.election.followers) {
    if (follower_info.decided.number < later.number) {
      turn.act(Tell{agent, Decided{later, {}}});
    }
  }
  for (auto const& [agent, node] : turn.state.roster.present) {
    turn.act(Tell{agent, Decided{later, {}}});
  }
  return next::Deposed{name_of(later.number) + " is decided already"};
}

/// Asks a caller for its promise, or tells it what is decided. Steps down if the caller knows a later decision.
Next ask(Turn& turn, AgentId agent, FollowerInfo const& follower_info) {
  Proposer& proposer = turn.state.proposer;
  Election& election = turn.state.election;
  if (follower_info.decided.number > proposer.decided.number) {
    return yield_to(turn, follower_info.decided);
  }
  election.seen = std::max({election.seen, follower_info.seen, follower_info.prepared});
  if (follower_info.decided.number < proposer.decided.number) {
    turn.act(Tell{agent, Decided{proposer.decided, {}}});
  } else if (follower_info.rank && *follower_info.rank < proposer.decided.size &&
             election.voters.emplace(agent, *follower_info.rank).second) {
    turn.act(Tell{agent, VoteRequest{proposer.decided.number, proposer.ballot}});
  }
  return stay;
}

}  // namespace

Next handle(Turn& turn, Campaign const& event) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  bool const first = state.phase == Phase::standby;
  state.election.campaign_id = event.campaign_id;
  if (!first && !candidate(state)) {
    turn.say(Level::debug, "ignored: a campaign while coordinating", "ignored");
    return stay;
  }
  if (!first && (event.decided.number < proposer.decided.number ||
                 (event.decided.number == proposer.decided.number && event.ballot <= proposer.ballot))) {
    turn.say(Level::debug, "ignored: a campaign that is no news", "ignored");
    return stay;
  }
  proposer.decided = event.decided;
  election.seen = std::max({election.seen, event.seen, event.decided.number});
  election.two_nodes = event.pair;
  election.half_after = event.half_after;
  election.seats_kept_until = turn.now + event.half_after;
  election.successors = event.successors;
  state.number = std::max(state.number, event.decided.number);
  inherit_decree(state.restarts, event.decided, turn.now, turn.policy);
  inherit(state.ledger, event.decided.history, event.job_began, turn.now);
  inherit_faults(state.roster.fitness, event.decided.faults);
  state.job_end = event.job_end;
  state.election.old_hosts = event.hosts;
  return next::Electing{event.ballot};
}

Next begin(Turn& turn, next::Electing const& what) {
  State& state = turn.state;
  state.timers.answer.reset();
  begin_round(state.proposer, what.ballot);
  state.election.voters.clear();
  turn.say(Level::info, "campaigns after " + name_of(state.proposer.decided.number) + ", round " +
                            std::to_string(what.ballot.round));
  auto const followers = state.election.followers;
  for (auto const& [agent, follower_info] : followers) {
    if (Next next = ask(turn, agent, follower_info); !std::holds_alternative<next::Stay>(next)) {
      return next;
    }
  }
  return stay;
}

Next handle(Turn& turn, Withdraw const& event) {
  State const& state = turn.state;
  if (candidate(state)) {
    return next::Standby{event.why};
  }
  bool const stands = state.proposer.taking_over() && state.phase != Phase::finished;
  return stands ? Next{next::Deposed{event.why}} : Next{stay};
}

Next begin(Turn& turn, next::Standby const& what) {
  State& state = turn.state;
  state.timers.answer.reset();
  give_up(state.proposer);
  state.election.voters.clear();
  for (auto const& [agent, follower_info] : std::exchange(state.election.followers, {})) {
    turn.act(HangUp{agent});  // looks for another candidate, if it has promised us
  }
  for (auto const& [agent, node] : std::exchange(state.roster.present, {})) {
    turn.act(HangUp{agent});  // came while an adopted decree was being decided
  }
  state.roster.index_owner.clear();
  turn.say(Level::debug, "no longer a candidate: " + what.why);
  return stay;
}

Next on_vote(Turn& turn, AgentId agent, Vote const& message) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  auto const voter = state.election.voters.find(agent);
  if (voter == state.election.voters.end() || message.after != proposer.decided.number) {
    turn.say(Level::debug, "ignored: a vote after " + name_of(message.after), "ignored");
    return stay;
  }
  std::uint32_t const member = voter->second;
  if (message.promised > proposer.ballot) {
    auto const why = "node " + std::to_string(member) + " has promised round " +
                     std::to_string(message.promised.round) + " to node " + std::to_string(message.promised.rank);
    if (hear_refusal(proposer, member) == Outcome::lost) {
      return next::Deposed{why};
    }
    turn.say(Level::debug, why);
    return stay;
  }
  if (message.ballot != proposer.ballot || message.promised != proposer.ballot) {
    return stay;
  }
  TimePoint const word = turn.now - std::max(message.silent_for, Millis{0});
  state.election.last_contact = std::max(state.election.last_contact.value_or(word), word);
  if (state.phase == Phase::electing) {
    hear_promise(proposer, member, message.accepted);
    return count_promises(turn);
  }
  if (gathering(state)) {
    hear_promise(proposer, member, message.accepted);
    return take_in_late(turn, agent);
  }
  return stay;
}

Next count_promises(Turn& turn) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Outcome outcome = count(proposer);
  if (outcome != Outcome::elected && alone(state)) {
    outcome = survive(proposer);
  } else if (outcome == Outcome::half) {
    if (may_come(state)) {  // with one more promise no fence is needed
      state.timers.answer = state.timers.answer.value_or(turn.now + state.election.half_after);
      if (turn.now < *state.timers.answer) {
        return stay;
      }
    }
    outcome = half_is_all(proposer);
  }
  if (outcome != Outcome::elected) {
    state.timers.answer.reset();  // fewer than half again: the wait for one more begins anew
    return stay;
  }
  turn.say(Level::info,
           "elected by " + std::to_string(proposer.promised.size()) + " of " + std::to_string(proposer.decided.size));
  return proposer.adopted() ? Next{next::Proposing{}} : take_over(turn);
}

Next electing_tick(Turn& turn) {
  return is_due(turn.state.timers.answer, turn.now) ? count_promises(turn) : Next{stay};
}

Next campaign_after_adopted(Turn& turn, std::uint32_t round) {
  State& state = turn.state;
  Decree const decided = state.proposer.decided;
  inherit_decree(state.restarts, decided, turn.now, turn.policy);
  inherit(state.ledger, decided.history, state.ledger.start, turn.now);
  inherit_faults(state.roster.fitness, decided.faults);
  state.number = std::max(state.number, decided.number);
  state.election.seen = std::max(state.election.seen, decided.number);
  state.election.seats_kept_until = turn.now + state.election.half_after;
  turn.say(Level::info,
           name_of(decided.number) + " was accepted before its coordinator was lost: decided, not started");
  std::optional<std::uint32_t> own;
  for (auto& [agent, follower_info] : state.election.followers) {
    turn.act(Tell{agent, Decided{decided, {}}});
    auto const rank = ready_rank(follower_info, decided);
    // What it has said of its workers and of dead seats is about the generation before.
    follower_info = {follower_info.node,
                     decided,
                     rank,
                     follower_info.prepared,
                     follower_info.prepared_rank,
                     follower_info.prepared_members,
                     follower_info.seen};
    if (follower_info.node.coordinates) {
      own = follower_info.rank;
    }
  }
  if (!own) {
    return next::Deposed{name_of(decided.number) + " is decided, and this node is no member of it"};
  }
  return next::Electing{Ballot{round, *own}};
}

std::optional<AgentId> on_death_notice(Turn& turn, Gone const& gone) {
  State& state = turn.state;
  Held const held{gone.number, gone.group_rank};
  note_dead(state, held, turn.now);
  if (held.first == state.number && held.second < state.group.seats.size()) {
    state.roster.cut.erase(node_key(state.group.seats[held.second].node));
  }
  if (!workers_may_run(state.phase) || held.first != state.number || held.second >= state.group.seats.size()) {
    return std::nullopt;
  }
  AgentId const agent = state.group.seats[held.second].agent;
  return state.roster.present.contains(agent) ? std::optional(agent) : std::nullopt;
}

// ---- callers: agents that have lost their coordinator ---------------------------------------------------------

namespace {

/// The caller waits for an election that is over, and may not know who leads: tells it who may.
void redirect(Turn& turn, AgentId agent, FollowerInfo const& follower_info) {
  auto const& learned = turn.state.election.learned;
  if (learned && follower_info.decided.number < learned->decree.number) {
    turn.act(Tell{agent, Decided{learned->decree, learned->successors, false}});
  }
}

/// Records the dead members that the caller knows, if this coordinator may take over. Returns whether any is new.
bool note_dead_seats(Turn& turn, FollowerInfo const& follower_info) {
  State& state = turn.state;
  bool const takes_over = state.proposer.taking_over() && state.phase != Phase::running;
  if (state.phase != Phase::standby && state.phase != Phase::lease_wait && !candidate(state) && !takes_over) {
    return false;
  }
  auto const known = state.election.dead.size();
  Millis const kill = lease_terms(turn.policy.heartbeat_timeout).kill;
  for (DeadSeat const& dead : follower_info.dead) {
    if (dead.rank < follower_info.decided.size) {
      // The kernel kills the workers of a dead agent; no notice says when they are gone.
      note_dead(state, Held{follower_info.decided.number, dead.rank}, turn.now - dead.known_for + kill);
    }
  }
  return state.election.dead.size() > known;
}

/// While this agent coordinates, or did until the verdict.
CallResult on_call_while_active(Turn& turn, FollowerCalled const& event) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  FollowerInfo const& follower_info = event.follower_info;
  if (state.roster.present.contains(event.agent)) {
    return {};
  }
  if (state.phase == Phase::finished) {  // it has missed the verdict
    turn.act(Tell{event.agent, Finished{state.verdict->exit_code, state.verdict->summary}});
    turn.act(HangUp{event.agent});
    return {};
  }
  if (follower_info.decided.number > proposer.decided.number) {
    state.election.followers[event.agent] = follower_info;
    return {yield_to(turn, follower_info.decided)};
  }
  bool const aware = follower_info.decided.number == proposer.decided.number;
  auto const rank = aware ? follower_info.rank : ready_rank(follower_info, proposer.decided);
  if (gathering(state) && rank && election.missing.contains(*rank)) {
    state.election.followers[event.agent] = follower_info;
    election.voters.erase(event.agent);  // it calls again: asked again, because it may have promised another ballot
    return {ask(turn, event.agent, follower_info)};
  }
  if (election.voters.contains(event.agent)) {  // it may vote, and is let in with the next generation
    state.election.followers[event.agent] = follower_info;
    return {};
  }
  if (auto why = needed(turn, follower_info); !why.empty()) {
    state.election.followers[event.agent] = follower_info;
    return {next::Deposed{std::move(why)}};
  }
  return {stay, true};
}

CallResult on_call_in_phase(Turn& turn, FollowerCalled const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby) {
    state.election.followers[event.agent] = event.follower_info;
    redirect(turn, event.agent, event.follower_info);
    return {};
  }
  if (!candidate(state)) {
    return on_call_while_active(turn, event);
  }
  auto const known = state.election.followers.find(event.agent);
  if (known != state.election.followers.end() && known->second.decided.number != event.follower_info.decided.number) {
    state.election.voters.erase(event.agent);
  }
  state.election.followers[event.agent] = event.follower_info;
  return {ask(turn, event.agent, event.follower_info)};
}

}  // namespace

CallResult on_follower_call(Turn& turn, FollowerCalled const& event) {
  bool const new_death = note_dead_seats(turn, event.follower_info);
  CallResult result = on_call_in_phase(turn, event);
  result.new_death = new_death;
  return result;
}

Next handle(Turn& turn, Learned const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby) {
    state.election.learned = event;
    for (auto const& [agent, follower_info] : state.election.followers) {
      redirect(turn, agent, follower_info);
    }
  }
  return stay;
}

void refuse(Turn& turn, AgentId agent, std::string const& why) {
  turn.act(Tell{agent, Dropped{turn.state.number, why}});
  turn.act(HangUp{agent});
}

void drop_late_followers(Turn& turn, std::string const& why) {
  auto const late = std::exchange(turn.state.election.followers, {});
  for (auto const& [agent, follower_info] : late) {
    refuse(turn, agent, why);
  }
}

}  // namespace cxxrun::rendezvous
