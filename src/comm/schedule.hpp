// Pairwise exchange: in which order a node sends to the others, so that no two send to the same one at a time. Pure.
//
// Every buffer that goes to a peer is cut into blocks. Turns go block by block, and within a block step by step: in
// step s node n sends to n + s and receives from n - s. Each step is a permutation of the nodes, so every link is
// busy in both directions and nobody is flooded. Why not a ring:
// docs/decisions/0008-pairwise-exchange-between-nodes.md.
#pragma once

#include <cstddef>

namespace cxxrun::comm {

struct Turn {
  std::size_t block = 0;
  int to = 0;    ///< the node that gets the block
  int from = 0;  ///< the node whose block comes in the same turn
  bool operator==(Turn const&) const = default;
};

/// Turn number `turn` of `node` among `nodes` >= 2.
[[nodiscard]] Turn turn_of(std::size_t turn, int node, int nodes);

/// Blocks of `block` units that hold `size` units.
[[nodiscard]] constexpr std::size_t blocks_in(std::size_t size, std::size_t block) {
  return size / block + (size % block == 0 ? 0 : 1);
}

/// How many blocks of a peer are kept until those of all others have come.
inline constexpr std::size_t kBlocksAhead = 4;

/// Bytes of a block: large enough that system calls do not count, small enough for all peers' blocks to stay in cache.
[[nodiscard]] std::size_t block_bytes(int nodes);

}  // namespace cxxrun::comm
