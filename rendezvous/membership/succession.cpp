#include "rendezvous/membership/succession.hpp"

#include <algorithm>

#include "rendezvous/history/retrying.hpp"
#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/ending.hpp"
#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {
namespace {

/// It may die before its first beat to us, and nothing else would tell. That one has twice the timeout: a whole job may
/// be opening as many connections meanwhile.
void await_first_beat(Turn& turn, AgentId agent) {
  auto& silence = turn.state.silence;
  if (!silence.heard.contains(agent)) {
    Millis const timeout = turn.policy.heartbeat_timeout;
    silence = heard(std::move(silence), agent, turn.now + timeout, SilencePolicy{timeout});
  }
}

/// Gives a follower the seat that it had. True: its workers may run, and it is yet to stop them.
bool seat_follower(Turn& turn, AgentId agent, std::uint32_t rank) {
  State& state = turn.state;
  FollowerInfo const follower_info = state.election.followers.at(agent);
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

/// It hears of nothing else until the next generation is formed: its search for a coordinator is over.
void tell_follower(Turn& turn, AgentId agent) {
  turn.act(Tell{agent, Decided{turn.state.proposer.decided, {}}});
}

/// Seats of the generation taken over, all of them missing; when their workers are dead for certain.
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
  if (leases_on(turn.policy) && !begun_for) {  // what came before `decided` may still run where nobody here knows of it
    leases.outstanding[Held{0, 0}] = until;
  }
  if (begun_for) {  // for how long nobody here knows
    run(state.ledger, *state.ledger.start + state.ledger.history.account.total());
  }
  if (lived || begun_for >= turn.policy.long_enough) {
    state.restarts.streak = {};
  } else {
    state.timers.restart = turn.now + delay_after(state.restarts.streak, turn.policy);
  }
}

}  // namespace

Next take_over(Turn& turn) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  state.number = proposer.decided.number;
  state.ever_ran = true;
  election.succession = Succession::happened;
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

Next take_in(Turn& turn, AgentId agent) {
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

}  // namespace cxxrun::rendezvous
