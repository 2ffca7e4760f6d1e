// Pairwise exchange: the order in which a node sends to the others, so that no two send to the same node at a time.
// Pure.
//
// Every buffer for a peer is cut into blocks. Turns go block by block, and within a block step by step: in step s node
// n sends to n + s and receives from n - s. Each step is a permutation of the nodes, so every link is busy in both
// directions and no node is flooded. Why not a ring: docs/decisions/0008-pairwise-exchange-between-nodes.md.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace cxxrun::comm {

struct Turn {
  std::size_t block = 0;
  int to = 0;    ///< the node that receives the block
  int from = 0;  ///< the node whose block arrives in the same turn
  bool operator==(Turn const&) const = default;
};

/// Turn number `turn` of `node` among `nodes` >= 2.
[[nodiscard]] inline Turn turn_of(std::size_t turn, int node, int nodes) {
  assert(nodes >= 2 && node >= 0 && node < nodes);
  auto const steps = static_cast<std::size_t>(nodes) - 1;
  int const step = static_cast<int>(turn % steps) + 1;
  return {turn / steps, (node + step) % nodes, (node - step + nodes) % nodes};
}

/// Number of blocks of `block` units that cover `size` units.
[[nodiscard]] constexpr std::size_t blocks_in(std::size_t size, std::size_t block) {
  return size / block + (size % block == 0 ? 0 : 1);
}

/// How many blocks of one peer are buffered until those of all others have arrived.
inline constexpr std::size_t kBlocksAhead = 4;

/// Bytes per block: large enough to amortize system calls, small enough that all peers' blocks stay in the cache.
[[nodiscard]] constexpr std::size_t block_bytes(int nodes) {
  constexpr std::size_t kAllPeers = std::size_t{8} << 20U;
  constexpr std::size_t kSmallest = std::size_t{64} << 10U;
  constexpr std::size_t kLargest = std::size_t{256} << 10U;
  auto const peers = static_cast<std::size_t>(std::max(nodes, 2)) - 1;
  std::size_t size = kLargest;  // a power of two, so it holds a whole number of any elements
  while (size > kSmallest && size * kBlocksAhead * peers > kAllPeers) {
    size /= 2;
  }
  return size;
}

}  // namespace cxxrun::comm
