#include "src/comm/schedule.hpp"

#include <algorithm>

namespace cxxrun::comm {

Turn turn_of(std::size_t turn, int node, int nodes) {
  auto const steps = static_cast<std::size_t>(nodes) - 1;
  int const step = static_cast<int>(turn % steps) + 1;
  return {turn / steps, (node + step) % nodes, (node - step + nodes) % nodes};
}

std::size_t block_bytes(int nodes) {
  constexpr std::size_t kAllPeers = std::size_t{8} << 20U;
  constexpr std::size_t kSmallest = std::size_t{64} << 10U;
  constexpr std::size_t kLargest = std::size_t{256} << 10U;
  auto const peers = static_cast<std::size_t>(std::max(nodes, 2)) - 1;
  std::size_t size = kLargest;  // a power of two: any element fits a whole number of times
  while (size > kSmallest && size * kBlocksAhead * peers > kAllPeers) {
    size /= 2;
  }
  return size;
}

}  // namespace cxxrun::comm
