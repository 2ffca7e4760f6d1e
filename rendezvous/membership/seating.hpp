// Seating: which agents form the next generation, at which group rank. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rendezvous/membership/state.hpp"

namespace cxxrun::rendezvous {

/// Chooses at most `max` of the present agents and gives them group ranks. The coordinator's own agent always gets a
/// seat if it is present.
///
/// A survivor of `previous` keeps its rank as long as the size allows; newcomers take the free ranks, ordered by node
/// index, then the coordinator's own agent, then arrival. If `previous` is empty, the chosen agents are ordered by node
/// index, then the coordinator's own agent, host name, number of workers (the larger first), arrival.
[[nodiscard]] std::vector<Seat> seat_agents(std::map<AgentId, NodeInfo> const& present,
                                            std::vector<Seat> const& previous, std::uint32_t max);

/// Numbers of workers from which each member's part of the generation follows in O(1).
struct RoleTotals {
  std::map<std::string, std::uint32_t> size;  ///< workers per role
  std::vector<std::uint32_t> base;            ///< ROLE_RANK of local rank 0, by group rank
  std::uint32_t world = 0;
};
[[nodiscard]] RoleTotals count_roles(std::vector<Seat> const& seats);

/// MASTER_ADDR: what the coordinator's node announces, else the first address at which a member on another machine
/// reached the coordinator, else the loopback address that all used. If no member hosts the coordinator and rank 0
/// listens itself (`agent_store` false): what its agent announces, else the address it calls from.
[[nodiscard]] std::string master_address(std::vector<Seat> const& seats, bool agent_store);

/// The address at which the others reach a member's standby port. The coordinator's own agent calls it over loopback,
/// which is of no use to the others: for it this is the address at which another machine reached the coordinator.
[[nodiscard]] std::string standby_address(std::vector<Seat> const& seats, std::uint32_t group_rank);

/// Fills in `hosts` and `local_sizes`; leaves a text empty that would be longer than its bound.
void name_members(std::vector<Seat> const& seats, Generation& generation);

}  // namespace cxxrun::rendezvous
