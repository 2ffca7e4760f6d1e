#include "src/runtime/comm/schedule.hpp"

#include <vector>

#include "src/runtime/comm/node_map.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::comm;

TEST_CASE("in every turn each node sends to one and receives from one that sends to it") {
  for (int nodes = 2; nodes <= 64; ++nodes) {
    for (std::size_t turn = 0; turn < 3 * static_cast<std::size_t>(nodes); ++turn) {
      std::vector<int> hits(static_cast<std::size_t>(nodes));
      bool fits = true;
      for (int node = 0; node < nodes; ++node) {
        Turn const mine = turn_of(turn, node, nodes);
        Turn const theirs = turn_of(turn, mine.to, nodes);
        ++hits[static_cast<std::size_t>(mine.to)];
        fits = fits && mine.to != node && theirs.from == node && theirs.block == mine.block;
      }
      if (!fits || hits != std::vector<int>(hits.size(), 1)) {
        FAIL("turn " << turn << " of " << nodes << " nodes is no permutation");
      }
    }
  }
}

// The whole schedule in memory: every contribution arrives once at the owner of its part, then every result at every
// node.
TEST_CASE("after all turns every node has the sum of all contributions") {
  constexpr std::size_t kCount = 10'000;
  constexpr std::size_t kBlock = 32;
  for (int nodes = 2; nodes <= 64; nodes += nodes < 10 ? 1 : 9) {
    std::vector<std::vector<int>> arrived(static_cast<std::size_t>(nodes), std::vector<int>(kCount));
    auto results = arrived;
    auto const turns = blocks_in(part_of(kCount, 0, nodes).count, kBlock) * (static_cast<std::size_t>(nodes) - 1);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      for (int node = 0; node < nodes; ++node) {
        Turn const mine = turn_of(turn, node, nodes);
        auto const mark = [&](std::vector<int>& where, int owner) {
          Range const part = part_of(kCount, owner, nodes);
          for (std::size_t i = mine.block * kBlock; i < std::min(part.count, (mine.block + 1) * kBlock); ++i) {
            ++where[part.first + i];
          }
        };
        mark(arrived[static_cast<std::size_t>(mine.to)], mine.to);
        mark(results[static_cast<std::size_t>(mine.to)], node);
      }
    }
    for (int node = 0; node < nodes; ++node) {
      Range const own = part_of(kCount, node, nodes);
      auto const at = static_cast<std::size_t>(node);
      for (std::size_t i = 0; i < kCount; ++i) {
        bool const mine = i >= own.first && i < own.first + own.count;
        if (arrived[at][i] != (mine ? nodes - 1 : 0) || results[at][i] != (mine ? 0 : 1)) {
          FAIL("element " << i << " on node " << node << " of " << nodes);
        }
      }
    }
  }
}

TEST_CASE("blocks shrink with the number of nodes and stay within their bounds") {
  CHECK(block_bytes(2) == 256U << 10U);
  CHECK(block_bytes(64) == 64U << 10U);
  CHECK(blocks_in(0, 32) == 0);
  CHECK(blocks_in(1, 32) == 1);
  CHECK(blocks_in(64, 32) == 2);
}
