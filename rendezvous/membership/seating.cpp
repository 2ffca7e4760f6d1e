#include "rendezvous/membership/seating.hpp"

#include <algorithm>
#include <cassert>
#include <limits>
#include <set>

#include "src/base/core/hostlist.hpp"

namespace cxxrun::rendezvous {
namespace {

auto newcomer_order(AgentId agent, NodeInfo const& node) {
  auto const index = node.node_index.value_or(std::numeric_limits<std::uint32_t>::max());
  return std::make_tuple(index, !node.coordinates, agent);
}

/// In the first generation arrival decides which agents get a seat, but not at which rank: so sums over nodes of
/// unequal sizes have the same bits in every run.
auto first_order(AgentId agent, NodeInfo const& node) {
  auto const [index, is_guest, arrival] = newcomer_order(agent, node);
  return std::make_tuple(index, is_guest, node.host, std::numeric_limits<std::uint32_t>::max() - node.slots, arrival);
}

/// Survivors in their old order, then newcomers in theirs, at most `max`. The coordinator's own node is always among
/// them.
std::vector<AgentId> choose(std::map<AgentId, NodeInfo> const& present, std::vector<Seat> const& previous,
                            std::uint32_t max) {
  std::vector<AgentId> chosen;
  std::set<AgentId> taken;
  for (auto const& seat : previous) {
    if (present.contains(seat.agent) && taken.insert(seat.agent).second) {
      chosen.push_back(seat.agent);
    }
  }
  std::vector<AgentId> newcomers;
  for (auto const& [agent, node] : present) {
    if (!taken.contains(agent)) {
      newcomers.push_back(agent);
    }
  }
  std::sort(newcomers.begin(), newcomers.end(),
            [&](AgentId a, AgentId b) { return newcomer_order(a, present.at(a)) < newcomer_order(b, present.at(b)); });
  chosen.insert(chosen.end(), newcomers.begin(), newcomers.end());
  if (chosen.size() > max) {
    auto const coordinator =
        std::find_if(chosen.begin(), chosen.end(), [&](AgentId agent) { return present.at(agent).coordinates; });
    if (coordinator != chosen.end() && coordinator - chosen.begin() >= static_cast<std::ptrdiff_t>(max)) {
      std::iter_swap(coordinator, chosen.begin() + (max - 1));
    }
    chosen.resize(max);
  }
  if (previous.empty()) {
    std::sort(chosen.begin(), chosen.end(),
              [&](AgentId a, AgentId b) { return first_order(a, present.at(a)) < first_order(b, present.at(b)); });
  }
  return chosen;
}

/// Other machines cannot use it.
bool is_local(std::string const& address) {
  return address.empty() || address.starts_with("127.") || address == "::1";
}

}  // namespace

std::vector<Seat> seat_agents(std::map<AgentId, NodeInfo> const& present, std::vector<Seat> const& previous,
                              std::uint32_t max) {
  auto const chosen = choose(present, previous, max);
  std::vector<std::optional<AgentId>> at(chosen.size());
  std::map<AgentId, std::size_t> old_rank;
  for (std::size_t rank = 0; rank < previous.size(); ++rank) {
    old_rank.emplace(previous[rank].agent, rank);
  }
  std::vector<AgentId> unplaced;
  for (AgentId const agent : chosen) {
    auto const old = old_rank.find(agent);
    if (old != old_rank.end() && old->second < at.size() && !at[old->second]) {
      at[old->second] = agent;
    } else {
      unplaced.push_back(agent);
    }
  }
  std::vector<Seat> seats(chosen.size());
  std::uint32_t base = 0;
  auto next = unplaced.begin();
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    assert(at[rank] || next != unplaced.end());
    AgentId const agent = at[rank] ? *at[rank] : *next++;
    seats[rank].agent = agent;
    seats[rank].node = present.at(agent);
    seats[rank].rank_base = base;
    base += seats[rank].node.slots;
  }
  return seats;
}

RoleTotals count_roles(std::vector<Seat> const& seats) {
  RoleTotals totals;
  totals.base.reserve(seats.size());
  for (auto const& seat : seats) {
    auto& size = totals.size[seat.node.role];
    totals.base.push_back(size);
    size += seat.node.slots;
    totals.world += seat.node.slots;
  }
  return totals;
}

namespace {

/// The address at which a member reached the coordinator; "" if all did on a loopback address. An agent on the
/// coordinator's host may have reached it at an address that each host has for itself, such as docker0's, so one that
/// has called from another host counts first.
std::string reached_address(std::vector<Seat> const& seats) {
  std::string reached;
  for (auto const& seat : seats) {
    auto const& address = seat.node.reached_at;
    if (!is_local(address) && address != seat.node.calls_from) {
      return address;
    }
    reached = reached.empty() && !is_local(address) ? address : reached;
  }
  return reached;
}

}  // namespace

std::string master_address(std::vector<Seat> const& seats, bool agent_store) {
  bool const hosted = std::any_of(seats.begin(), seats.end(), [](Seat const& seat) { return seat.node.coordinates; });
  if (!hosted && !agent_store && !seats.empty()) {
    auto const& first = seats.front().node;
    if (!first.announce.empty() || !is_local(first.calls_from)) {
      return first.announce.empty() ? first.calls_from : first.announce;
    }
  }
  std::string loopback = "127.0.0.1";
  for (auto const& seat : seats) {
    if (seat.node.coordinates && !seat.node.announce.empty()) {
      return seat.node.announce;
    }
    auto const& address = seat.node.reached_at;
    if (seat.node.coordinates && is_local(address) && !address.empty()) {
      loopback = address;
    }
  }
  auto const reached = reached_address(seats);
  return reached.empty() ? loopback : reached;
}

std::string standby_address(std::vector<Seat> const& seats, std::uint32_t group_rank) {
  NodeInfo const& node = seats[group_rank].node;
  if (!node.coordinates || !is_local(node.calls_from)) {
    return node.calls_from;
  }
  auto const reached = reached_address(seats);
  return reached.empty() ? node.calls_from : reached;
}

void name_members(std::vector<Seat> const& seats, Generation& generation) {
  std::vector<std::string> hosts;
  std::vector<unsigned> sizes;
  hosts.reserve(seats.size());
  sizes.reserve(seats.size());
  for (auto const& seat : seats) {
    hosts.push_back(seat.node.host);
    sizes.push_back(seat.node.slots);
  }
  generation.hosts = compress_hostlist(hosts);
  generation.local_sizes = compress_counts(sizes);
  if (generation.hosts.size() > kMaxHostsText) {
    generation.hosts.clear();
  }
  if (generation.local_sizes.size() > kMaxSizesText) {
    generation.local_sizes.clear();
  }
}

}  // namespace cxxrun::rendezvous
