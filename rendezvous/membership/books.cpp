#include "rendezvous/membership/books.hpp"

#include <algorithm>
#include <utility>

namespace cxxrun::rendezvous {

bool leases_on(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && policy.tie != Tie::none;
}

bool rivalled(State const& state, Policy const& policy) {
  return leases_on(policy) && !policy.ends_when_empty && (state.leadership.rivals || state.leadership.taking_over());
}

std::string host_at(State const& state, std::uint32_t rank) {
  return rank < state.old_hosts.size() ? state.old_hosts[rank] : "node " + std::to_string(rank);
}

Seat* find_seat(State& state, AgentId agent) {
  auto const it = state.seat_of.find(agent);
  return it == state.seat_of.end() ? nullptr : &state.seats[it->second];
}

std::string node_key(NodeInfo const& node) {
  return node.node_index ? "#" + std::to_string(*node.node_index) : node.host;
}

void count_loss(State& state, NodeInfo const& node) {
  ++state.losses[node_key(node)];
  state.gone[node_key(node)] = node.host;
  mark_dead(state, node);
}

void mark_dead(State& state, NodeInfo const& node) {
  if (node.node_index) {
    state.dead.insert(*node.node_index);
  }
}

void drop(State& state, AgentId agent) {
  auto const it = state.present.find(agent);
  if (it == state.present.end()) {
    return;
  }
  if (it->second.node_index) {
    state.index_owner.erase(*it->second.node_index);
  }
  state.present.erase(it);
  state.leadership.voters.erase(agent);
  state.leadership.pulses.erase(agent);
}

void enter(State& state, AgentId agent, NodeInfo const& node) {
  auto const [entry, fresh] = state.present.emplace(agent, node);
  if (!fresh && entry->second.node_index) {  // it says now that it is another node
    state.index_owner.erase(*entry->second.node_index);
  }
  entry->second = node;
  state.followers.erase(agent);
  state.gone.erase(node_key(node));
  state.gone.erase(node.host);
  if (node.node_index) {
    if (state.came.insert(*node.node_index).second && state.vanished > 0) {
      --state.vanished;
    }
    state.dead.erase(*node.node_index);
    state.index_owner[*node.node_index] = agent;
  }
}

void drain(Turn& turn, AgentId agent, ToAgent final_message) {
  State& state = turn.state;
  auto const it = state.present.find(agent);
  if (it == state.present.end()) {
    return;
  }
  mark_dead(state, it->second);  // it does not come back
  auto vote = state.leadership.voters.extract(agent);
  drop(state, agent);
  state.draining.emplace(agent, std::move(final_message));
  if (!vote.empty() && rivalled(state, turn.policy)) {
    state.leadership.voters.insert(std::move(vote));
  } else {
    dismiss(turn);
  }
}

void dismiss(Turn& turn) {
  State& state = turn.state;
  std::erase_if(state.draining, [&](auto const& entry) {
    auto const& [agent, final_message] = entry;
    if (state.leadership.voters.contains(agent)) {
      return false;
    }
    turn.act(Tell{agent, final_message});
    turn.act(HangUp{agent});
    return true;
  });
}

void restore_seats(State& state) {
  Leadership& leadership = state.leadership;
  leadership.seen = std::max(leadership.seen, state.number);
  state.number = leadership.decided.number;
  state.seats.assign(leadership.decided.size, Seat{});
  state.seat_of.clear();
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    state.seats[rank].now = Seat::Now::lost;
    state.seats[rank].node.host = host_at(state, rank);
  }
  for (auto const& [agent, rank] : leadership.voters) {
    if (auto const here = state.present.find(agent); here != state.present.end()) {
      Seat& seat = state.seats[rank];
      seat.agent = agent;
      seat.node = here->second;
      seat.now = Seat::Now::stopped;
      state.seat_of[agent] = rank;
    }
  }
}

}  // namespace cxxrun::rendezvous
