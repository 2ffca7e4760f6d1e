// Seating: which agents form the next generation, at which group rank. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rendezvous/membership/group.hpp"

namespace cxxrun::rendezvous {

/// Chooses at most `max` of the agents present and gives them group ranks:
/// a survivor of `previous` keeps its rank as long as the size allows, newcomers take the holes. Newcomers are
/// ordered by node index, then the coordinator's own agent, then arrival; with no `previous`, those who are chosen so
/// sit by index, then the coordinator's own agent, host name, number of workers (the larger first), arrival. The
/// coordinator's own agent always has a seat when it is present.
[[nodiscard]] std::vector<Seat> seat_agents(std::map<AgentId, NodeInfo> const& present,
                                            std::vector<Seat> const& previous, std::uint32_t max);

/// The part of the generation that is told to the member at `group_rank`; numbers, ports and restart counts are the
/// caller's to fill. O(1) given the totals in `roles`.
struct RoleTotals {
  std::map<std::string, std::uint32_t> size;  ///< workers per role
  std::vector<std::uint32_t> base;            ///< ROLE_RANK of local rank 0, by group rank
  std::uint32_t world = 0;
};
[[nodiscard]] RoleTotals count_roles(std::vector<Seat> const& seats);

/// MASTER_ADDR: what the coordinator's node announces, else the first address by which a member from another machine
/// reached the coordinator, else the loopback address everybody used. When no member hosts and rank 0 is to listen
/// itself
/// (`agent_store` false): what its agent announces, else the address it calls from.
[[nodiscard]] std::string master_address(std::vector<Seat> const& seats, bool agent_store);

/// Where a member's standby port is, for the others. The coordinator's own agent calls it over loopback, which says
/// nothing to them: then it is where the coordinator was reached from another machine.
[[nodiscard]] std::string standby_address(std::vector<Seat> const& seats, std::uint32_t group_rank);

/// Fills in `hosts` and `local_sizes`, or leaves empty what would be longer than its bound.
void name_members(std::vector<Seat> const& seats, Generation& generation);

}  // namespace cxxrun::rendezvous
