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
  next.after = state.leadership.decided.number;
  next.number = state.number;
  next.size = static_cast<std::uint32_t>(state.seats.size());
  auto const host =
      std::find_if(state.seats.begin(), state.seats.end(), [](Seat const& s) { return s.node.coordinates; });
  next.coordinator =
      host == state.seats.end() ? 0 : static_cast<std::uint32_t>(std::distance(state.seats.begin(), host));
  next.restarts = state.restarts;
  next.members = digest(state.seats);
  next.tie = policy.tie;
  return next;
}

bool may_be_succeeded(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && !policy.ends_when_empty;
}

}  // namespace

void begin_opening(Turn& turn) {
  State& state = turn.state;
  state.seats = seat_agents(state.present, state.seats, turn.policy.max_nodes);
  state.seat_of.clear();
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    state.seat_of.emplace(state.seats[rank].agent, rank);
  }
  state.reports.clear();
  state.join_deadline.reset();
  state.window_deadline.reset();
  state.awaited = 0;
  state.number = std::max(state.number, state.leadership.seen) + 1;
  turn.act(OpenStore{state.number});
}

void begin_preparing(Turn& turn, StoreOpened const& store) {
  State& state = turn.state;
  RoleTotals const roles = count_roles(state.seats);
  Generation common;
  common.number = state.number;
  common.restarts = state.restarts;
  common.max_restarts = turn.policy.max_restarts;
  common.group_size = static_cast<std::uint32_t>(state.seats.size());
  common.world_size = roles.world;
  common.master_addr = master_address(state.seats, turn.policy.agent_store);
  common.master_port = store.master_port;
  common.store_port = store.store_port;
  common.successors = successors(state.seats);
  common.decree = decree(state, turn.policy);
  for (auto const& seat : state.seats) {
    common.coordinator = seat.node.coordinates ? seat.node.incarnation : common.coordinator;
  }
  common.survives = may_be_succeeded(turn.policy) &&
                    (turn.policy.min_nodes < state.seats.size() || state.present.size() > state.seats.size());
  state.leadership.survives = common.survives;
  state.leadership.proposal = common.decree;
  state.leadership.proposed_successors = common.successors;
  name_members(state.seats, common);
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    Seat const& seat = state.seats[rank];
    Generation own = common;
    own.group_rank = rank;
    own.rank_base = seat.rank_base;
    own.local_size = seat.node.slots;
    own.role_base = roles.base[rank];
    own.role_size = roles.size.at(seat.node.role);
    turn.act(Tell{seat.agent, Prepare{std::move(own), own_time(turn.now)}});
  }
  state.awaited = static_cast<std::uint32_t>(state.seats.size());
  state.answer_deadline = turn.now + turn.policy.ack_timeout;
}

void tell_decided(Turn& turn, AgentId agent) {
  if (may_be_succeeded(turn.policy)) {
    turn.act(Tell{agent, Decided{turn.state.leadership.decided, turn.state.leadership.successors}});
  }
}

}  // namespace cxxrun::rendezvous
