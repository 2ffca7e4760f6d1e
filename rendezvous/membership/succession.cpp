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

/// Gives an elector the seat that it had. True: its workers may run, and it is yet to stop them.
bool seat_elector(Turn& turn, AgentId agent, std::uint32_t rank) {
  State& state = turn.state;
  Elector const elector = state.electors.at(agent);
  Seat& seat = state.seats[rank];
  seat.agent = agent;
  seat.node = elector.node;
  seat.now = elector.workers ? Seat::Now::running : Seat::Now::stopped;
  state.seat_of[agent] = rank;
  state.mandate.missing.erase(rank);
  state.gone.erase(host_at(state, rank));
  enter(state, agent, elector.node);
  await_first_beat(turn, agent);
  if (!elector.workers) {
    prove_stopped(state.mandate, state.mandate.decided.number, rank);
  }
  return elector.workers;
}

/// It hears of nothing else until the next generation is formed: its search for a coordinator is over.
void follow_us(Turn& turn, AgentId agent) {
  turn.act(Tell{agent, Decided{turn.state.mandate.decided, {}}});
}

/// Seats of the generation taken over, all of them missing; when their workers are dead for certain.
void reconstruct(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  Decree const& decided = mandate.decided;
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  TimePoint const until = mandate.last_word.value_or(turn.now) + terms.fence;
  state.seats.assign(decided.size, Seat{});
  state.seat_of.clear();
  state.reports.clear();
  for (std::uint32_t rank = 0; rank < decided.size; ++rank) {
    Held const held{decided.number, rank};
    state.seats[rank].now = Seat::Now::lost;
    state.seats[rank].node.host = host_at(state, rank);
    mandate.missing.insert(rank);
    if (leases_on(turn.policy) && !mandate.buried.contains(held)) {
      mandate.unproven[held] = until;
    } else if (leases_on(turn.policy) && mandate.pair) {
      mandate.unproven[held] = turn.now + terms.kill;
    }
  }
  // Nobody has been told to start `decided`: what came before it may still run where nobody here knows of it.
  bool const started = std::any_of(mandate.voters.begin(), mandate.voters.end(), [&](auto const& voter) {
    auto const elector = state.electors.find(voter.first);
    return elector != state.electors.end() && elector->second.workers;
  });
  if (leases_on(turn.policy) && !started) {
    mandate.unproven[Held{0, 0}] = until;
  }
}

}  // namespace

Next take_over(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  state.number = mandate.decided.number;
  state.ever_ran = true;
  mandate.took_over = true;
  mandate.seen += mandate.pair ? 99 : 0;
  reconstruct(turn);
  auto const voters = mandate.voters;
  for (auto const& [agent, rank] : voters) {
    if (mandate.promised.contains(rank) && mandate.missing.contains(rank) && !seat_elector(turn, agent, rank)) {
      follow_us(turn, agent);
    }
  }
  auto const others = state.electors;
  for (auto const& [agent, elector] : others) {
    if (!elector.rank && elector.decided.number == mandate.decided.number) {
      enter(state, agent, elector.node);
      await_first_beat(turn, agent);
      follow_us(turn, agent);
    }
  }
  for (std::uint32_t const rank : mandate.missing) {
    state.gone.emplace(host_at(state, rank), host_at(state, rank));
  }
  return next::Stopping{
      {StopKind::failure, 0, "coordinator lost: " + host_at(state, mandate.decided.coordinator), Level::warn}};
}

Next take_in(Turn& turn, AgentId agent) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  auto const rank = mandate.voters.at(agent);
  if (!state.electors.contains(agent) || !mandate.missing.contains(rank)) {
    return stay;
  }
  turn.say(Level::info, "node " + std::to_string(rank) + " has called too");
  if (!seat_elector(turn, agent, rank)) {
    follow_us(turn, agent);
    return state.phase == Phase::forming ? consider_forming(turn) : Next{stay};
  }
  return next::StoppingLate{agent};
}

}  // namespace cxxrun::rendezvous
