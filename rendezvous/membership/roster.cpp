#include "rendezvous/membership/roster.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace cxxrun::rendezvous {

bool rivalled(State const& state, Policy const& policy) {
  return leases_on(policy) && !policy.ends_when_empty &&
         (state.election.succession != Succession::none || state.proposer.taking_over());
}

Seat* find_seat(State& state, AgentId agent) {
  auto const it = state.group.seat_of.find(agent);
  return it == state.group.seat_of.end() ? nullptr : &state.group.seats[it->second];
}

std::size_t seats_here(State const& state) {
  auto const& seats = state.group.seats;
  return static_cast<std::size_t>(std::count_if(
      seats.begin(), seats.end(), [&](Seat const& seat) { return state.roster.present.contains(seat.agent); }));
}

bool all_here(State const& state) {
  return seats_here(state) == state.group.seats.size();
}

std::size_t spares(State const& state) {
  auto const& left_out = state.roster.left_out;
  auto const lacking =
      std::count_if(left_out.begin(), left_out.end(), [](auto const& each) { return !each.second.whole; });
  std::size_t const others = state.group.seats.size() + static_cast<std::size_t>(lacking);
  return state.roster.present.size() - std::min(state.roster.present.size(), others);
}

NodeInfo const* whole_again(State const& state) {
  auto const& left_out = state.roster.left_out;
  auto const it = std::find_if(left_out.begin(), left_out.end(), [](auto const& each) { return each.second.whole; });
  return it == left_out.end() ? nullptr : &state.roster.present.at(it->first);
}

void count_loss(State& state, NodeInfo const& node, bool perhaps_oom) {
  ++state.roster.losses[node_key(node)];
  if (perhaps_oom) {
    state.roster.perhaps_oom.insert(node_key(node));
  } else {
    state.roster.perhaps_oom.erase(node_key(node));
  }
  state.roster.gone[node_key(node)] = node.host;
  mark_dead(state, node);
}

void note_dead(State& state, Held const& held, TimePoint at) {
  TimePoint& known = state.election.dead.try_emplace(held, at).first->second;
  known = std::min(known, at);
  if (auto const waits = state.leases.outstanding.find(held); waits != state.leases.outstanding.end()) {
    waits->second = std::min(waits->second, known);
  }
}

void mark_dead(State& state, NodeInfo const& node) {
  if (node.node_index) {
    state.roster.dead.insert(*node.node_index);
  }
}

void drop(State& state, AgentId agent) {
  auto const it = state.roster.present.find(agent);
  if (it == state.roster.present.end()) {
    return;
  }
  if (it->second.node_index) {
    state.roster.index_owner.erase(*it->second.node_index);
  }
  state.roster.present.erase(it);
  state.roster.left_out.erase(agent);
  state.election.voters.erase(agent);
  state.leases.pulses.erase(agent);
}

void enter(State& state, AgentId agent, NodeInfo const& node) {
  auto const [entry, fresh] = state.roster.present.emplace(agent, node);
  if (!fresh && entry->second.node_index) {  // it may have another index now
    state.roster.index_owner.erase(*entry->second.node_index);
  }
  entry->second = node;
  state.election.followers.erase(agent);
  state.election.turned_away.erase(node_key(node));
  state.roster.gone.erase(node_key(node));
  state.roster.gone.erase(node.host);
  state.roster.cut.erase(node_key(node));
  if (node.node_index) {
    if (state.roster.came.insert(*node.node_index).second && state.roster.vanished > 0) {
      --state.roster.vanished;
    }
    state.roster.dead.erase(*node.node_index);
    state.roster.index_owner[*node.node_index] = agent;
  }
}

void drain(Turn& turn, AgentId agent, ToAgent final_message) {
  State& state = turn.state;
  auto const it = state.roster.present.find(agent);
  if (it == state.roster.present.end()) {
    return;
  }
  mark_dead(state, it->second);  // it does not come back
  auto vote = state.election.voters.extract(agent);
  drop(state, agent);
  state.roster.draining.emplace(agent, std::move(final_message));
  if (!vote.empty() && rivalled(state, turn.policy)) {
    state.election.voters.insert(std::move(vote));
  } else {
    dismiss(turn);
  }
}

void dismiss(Turn& turn) {
  State& state = turn.state;
  std::erase_if(state.roster.draining, [&](auto const& entry) {
    auto const& [agent, final_message] = entry;
    if (state.election.voters.contains(agent)) {
      return false;
    }
    turn.act(Tell{agent, final_message});
    turn.act(HangUp{agent});
    return true;
  });
}

void vacate_seats(State& state) {
  state.group.seats.assign(state.proposer.decided.size, Seat{});
  state.group.seat_of.clear();
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    state.group.seats[rank].now = Seat::Now::lost;
    state.group.seats[rank].node.host = host_at(state, rank);
  }
}

void restore_seats(State& state) {
  state.election.seen = std::max(state.election.seen, state.number);
  state.number = state.proposer.decided.number;
  vacate_seats(state);
  for (auto const& [agent, rank] : state.election.voters) {
    if (auto const here = state.roster.present.find(agent); here != state.roster.present.end()) {
      assert(rank < state.group.seats.size());
      Seat& seat = state.group.seats[rank];
      seat.agent = agent;
      seat.node = here->second;
      seat.now = Seat::Now::stopped;
      state.group.seat_of[agent] = rank;
    }
  }
}

}  // namespace cxxrun::rendezvous
