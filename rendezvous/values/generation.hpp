// Generation: a numbered set of agents with the ranks of their workers. The unit of restart. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

/// Number of the first generation of a job.
inline constexpr std::uint64_t kFirstGeneration = 1;

/// Limits on the members of a generation and on the workers of one member; messages with more are refused.
inline constexpr std::uint32_t kMaxNodes = 65536;
inline constexpr std::uint32_t kMaxWorkers = 4096;
/// Limits of `hosts` and `local_sizes`, in bytes.
inline constexpr std::size_t kMaxHostsText = 2048;
inline constexpr std::size_t kMaxSizesText = 384;
/// How many members may take over as coordinator.
inline constexpr std::size_t kMaxSuccessors = 8;

/// A member that may take over when the coordinator is lost.
struct Successor {
  std::uint32_t rank = 0;
  std::string host;     ///< for people
  std::string address;  ///< IP literal at which the others reach it
  std::uint16_t port = 0;
  bool operator==(Successor const&) const = default;
};

/// A generation as one agent is told of it: its own ranks, never the full member table. On the wire it takes a few
/// hundred bytes, and at most 8 KiB whatever the number of nodes.
struct Generation {
  std::uint64_t number = 0;    ///< 1, 2, …: increasing, never reused
  std::uint32_t restarts = 0;  ///< consumed so far; the same on every node
  std::uint32_t max_restarts = 0;
  std::uint32_t group_rank = 0;       ///< this agent's position among the members
  std::uint32_t group_size = 0;       ///< number of members
  std::uint32_t rank_base = 0;        ///< RANK of this agent's local rank 0
  std::uint32_t local_size = 0;       ///< workers of this agent
  std::uint32_t world_size = 0;       ///< workers of all members
  std::uint32_t role_base = 0;        ///< ROLE_RANK of local rank 0 among agents of the same role
  std::uint32_t role_size = 0;        ///< ROLE_WORLD_SIZE
  std::string master_addr;            ///< MASTER_ADDR
  std::uint16_t master_port = 0;      ///< MASTER_PORT: the generation's store, or a free port with --agent-store=off
  std::uint16_t store_port = 0;       ///< of the generation's store, with --agent-store=off too
  std::vector<Successor> successors;  ///< the first kMaxSuccessors members in rank order that can take over
  Decree decree;                      ///< proposed once all members are ready, unless the generation is dropped before
  std::string coordinator;            ///< incarnation of the member whose agent coordinates; "" = no member does
  bool survives = false;              ///< whether the job can continue after the loss of its coordinator
  std::string hosts;                  ///< the members' hosts by group rank, as a host list; "" = list too long
  std::string local_sizes;            ///< their local sizes, "4(x2),2"; "" = list too long
  bool operator==(Generation const&) const = default;
};

}  // namespace cxxrun::rendezvous
