// Generation: one numbered, agreed set of agents with the ranks of their workers. The unit of restart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

/// Number of the first generation of a job.
inline constexpr std::uint64_t kFirstGeneration = 1;

/// Members of a generation and workers of one of them: more are nobody's.
inline constexpr std::uint32_t kMaxNodes = 65536;
inline constexpr std::uint32_t kMaxWorkers = 4096;
/// The longest `hosts` and `local_sizes` of a generation.
inline constexpr std::size_t kMaxHostsText = 2048;
inline constexpr std::size_t kMaxSizesText = 384;
/// How many members may take over; the others follow them.
inline constexpr std::size_t kMaxSuccessors = 8;

/// A member that may take over when the coordinator is lost.
struct Successor {
  std::uint32_t rank = 0;
  std::string host;     ///< for people
  std::string address;  ///< literal, as the others reach it
  std::uint16_t port = 0;
  bool operator==(Successor const&) const = default;
};

/// One agent's part of a generation, as it is told to that agent: its own ranks, never the full member table.
/// Size on the wire is bounded (at most 8 KiB, as a rule a few hundred bytes) whatever the number of nodes.
struct Generation {
  std::uint64_t number = 0;    ///< 1, 2, …: never reused, never decreasing
  std::uint32_t restarts = 0;  ///< restarts consumed so far, the same on every node
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
  std::uint16_t store_port = 0;       ///< the generation's store, always
  std::vector<Successor> successors;  ///< first 8 members in rank order that can take over
  Decree decree;                      ///< to be proposed once all are ready, unless it is given up before
  std::string coordinator;            ///< incarnation of the member whose agent coordinates; "" = none: no successor
  bool survives = false;              ///< the job can go on without its coordinator; false: its loss is the end
  std::string hosts;                  ///< the members' hosts by group rank, as a host list; "" = too long a list
  std::string local_sizes;            ///< their local sizes, "4(x2),2"; "" = too long a list
  bool operator==(Generation const&) const = default;
};

}  // namespace cxxrun::rendezvous
