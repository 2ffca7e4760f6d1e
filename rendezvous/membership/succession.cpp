#include "rendezvous/membership/succession.hpp"

#include <algorithm>

#include "rendezvous/membership/books.hpp"
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
  FollowerInfo const follower_info = state.followers.at(agent);
  Seat& seat = state.seats[rank];
  seat.agent = agent;
  seat.node = follower_info.node;
  seat.now = follower_info.workers ? Seat::Now::running : Seat::Now::stopped;
  state.seat_of[agent] = rank;
  state.leadership.missing.erase(rank);
  state.gone.erase(host_at(state, rank));
  enter(state, agent, follower_info.node);
  await_first_beat(turn, agent);
  if (!follower_info.workers) {
    prove_stopped(state.leadership, state.leadership.decided.number, rank);
  }
  return follower_info.workers;
}

/// It hears of nothing else until the next generation is formed: its search for a coordinator is over.
void tell_follower(Turn& turn, AgentId agent) {
  turn.act(Tell{agent, Decided{turn.state.leadership.decided, {}}});
}

/// Seats of the generation taken over, all of them missing; when their workers are dead for certain.
void reconstruct(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  Decree const& decided = leadership.decided;
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  TimePoint const until = leadership.last_contact.value_or(turn.now) + terms.fence;
  state.seats.assign(decided.size, Seat{});
  state.seat_of.clear();
  state.reports.clear();
  for (std::uint32_t rank = 0; rank < decided.size; ++rank) {
    Held const held{decided.number, rank};
    state.seats[rank].now = Seat::Now::lost;
    state.seats[rank].node.host = host_at(state, rank);
    leadership.missing.insert(rank);
    if (leases_on(turn.policy) && !leadership.confirmed_dead.contains(held)) {
      leadership.outstanding_leases[held] = until;
    } else if (leases_on(turn.policy) && leadership.pair) {
      leadership.outstanding_leases[held] = turn.now + terms.kill;
    }
  }
  // Nobody has been told to start `decided`: what came before it may still run where nobody here knows of it.
  bool const started = std::any_of(leadership.voters.begin(), leadership.voters.end(), [&](auto const& voter) {
    auto const follower_info = state.followers.find(voter.first);
    return follower_info != state.followers.end() && follower_info->second.workers;
  });
  if (leases_on(turn.policy) && !started) {
    leadership.outstanding_leases[Held{0, 0}] = until;
  }
}

}  // namespace

Next take_over(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  state.number = leadership.decided.number;
  state.ever_ran = true;
  leadership.took_over = true;
  leadership.seen += leadership.pair ? 99 : 0;
  reconstruct(turn);
  auto const voters = leadership.voters;
  for (auto const& [agent, rank] : voters) {
    if (leadership.promised.contains(rank) && leadership.missing.contains(rank) && !seat_follower(turn, agent, rank)) {
      tell_follower(turn, agent);
    }
  }
  auto const others = state.followers;
  for (auto const& [agent, follower_info] : others) {
    if (!follower_info.rank && follower_info.decided.number == leadership.decided.number) {
      enter(state, agent, follower_info.node);
      await_first_beat(turn, agent);
      tell_follower(turn, agent);
    }
  }
  for (std::uint32_t const rank : leadership.missing) {
    state.gone.emplace(host_at(state, rank), host_at(state, rank));
  }
  return next::Stopping{
      {StopKind::failure, 0, "coordinator lost: " + host_at(state, leadership.decided.coordinator), Level::warn}};
}

Next take_in(Turn& turn, AgentId agent) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  auto const rank = leadership.voters.at(agent);
  if (!state.followers.contains(agent) || !leadership.missing.contains(rank)) {
    return stay;
  }
  turn.say(Level::info, "node " + std::to_string(rank) + " has called too");
  if (!seat_follower(turn, agent, rank)) {
    tell_follower(turn, agent);
    return state.phase == Phase::forming ? consider_forming(turn) : Next{stay};
  }
  return next::StoppingLate{agent};
}

}  // namespace cxxrun::rendezvous
