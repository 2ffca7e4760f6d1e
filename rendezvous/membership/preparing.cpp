#include "rendezvous/membership/preparing.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/seating.hpp"
#include "src/core/hash.hpp"

namespace cxxrun::rendezvous {
namespace {

std::vector<Successor> successors(std::vector<Seat> const& seats) {
  std::vector<Successor> result;
  for (std::uint32_t rank = 0; rank < seats.size() && result.size() < kMaxSuccessors; ++rank) {
    NodeInfo const& node = seats[rank].node;
    if (node.standby_port != 0) {
      result.push_back(Successor{rank, node.host, standby_address(seats, rank), node.standby_port});
    }
  }
  return result;
}

/// Tells one set of members in the order of their ranks from another, no more.
std::uint64_t digest(std::vector<Seat> const& seats) {
  std::uint64_t hash = kFnvBasis;
  for (auto const& seat : seats) {
    hash = fnv1a("\n", fnv1a(seat.node.incarnation, hash));
  }
  return hash;
}

Decree decree(State const& state, Policy const& policy) {
  Decree next;
  next.after = state.proposer.decided.number;
  next.number = state.number;
  next.size = static_cast<std::uint32_t>(state.group.seats.size());
  auto const host = std::find_if(state.group.seats.begin(), state.group.seats.end(),
                                 [](Seat const& s) { return s.node.coordinates; });
  next.coordinator =
      host == state.group.seats.end() ? 0 : static_cast<std::uint32_t>(std::distance(state.group.seats.begin(), host));
  next.restarts = state.restarts.consumed;
  next.members = digest(state.group.seats);
  next.tie = policy.tie;
  return next;
}

bool may_be_succeeded(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && !policy.ends_when_empty;
}

}  // namespace

void begin_opening(Turn& turn) {
  State& state = turn.state;
  state.group.seats = seat_agents(state.roster.present, state.group.seats, turn.policy.max_nodes);
  state.group.seat_of.clear();
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    state.group.seat_of.emplace(state.group.seats[rank].agent, rank);
  }
  state.group.reports.clear();
  state.timers.join.reset();
  state.timers.window.reset();
  state.group.awaited = 0;
  state.number = std::max(state.number, state.election.seen) + 1;
  turn.act(OpenStore{state.number});
}

void begin_preparing(Turn& turn, StoreOpened const& store) {
  State& state = turn.state;
  RoleTotals const roles = count_roles(state.group.seats);
  Generation common;
  common.number = state.number;
  common.restarts = state.restarts.consumed;
  common.max_restarts = turn.policy.max_restarts;
  common.group_size = static_cast<std::uint32_t>(state.group.seats.size());
  common.world_size = roles.world;
  common.master_addr = master_address(state.group.seats, turn.policy.agent_store);
  common.master_port = store.master_port;
  common.store_port = store.store_port;
  common.successors = successors(state.group.seats);
  common.decree = decree(state, turn.policy);
  for (auto const& seat : state.group.seats) {
    common.coordinator = seat.node.coordinates ? seat.node.incarnation : common.coordinator;
  }
  common.survives = may_be_succeeded(turn.policy) && (turn.policy.min_nodes < state.group.seats.size() ||
                                                      state.roster.present.size() > state.group.seats.size());
  state.election.survives = common.survives;
  state.proposer.proposal = common.decree;
  state.election.proposed_successors = common.successors;
  name_members(state.group.seats, common);
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    Seat const& seat = state.group.seats[rank];
    Generation own = common;
    own.group_rank = rank;
    own.rank_base = seat.rank_base;
    own.local_size = seat.node.slots;
    own.role_base = roles.base[rank];
    own.role_size = roles.size.at(seat.node.role);
    turn.act(Tell{seat.agent, Prepare{std::move(own), own_time(turn.now)}});
  }
  state.group.awaited = static_cast<std::uint32_t>(state.group.seats.size());
  state.timers.answer = turn.now + turn.policy.ack_timeout;
}

void tell_decided(Turn& turn, AgentId agent) {
  if (may_be_succeeded(turn.policy)) {
    turn.act(Tell{agent, Decided{turn.state.proposer.decided, turn.state.election.successors}});
  }
}

}  // namespace cxxrun::rendezvous
