#include "src/runtime/comm/node_map.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::comm::make_node_map;
using cxxrun::comm::members_of;
using cxxrun::comm::part_of;
using cxxrun::comm::Range;
using cxxrun::comm::Wish;
using cxxrun::comm::wish_of;
using Ranks = std::vector<int>;

TEST_CASE("node map: ranks alone, and all on one node", "[unit]") {
  auto const alone = make_node_map(0, {"a"});
  CHECK(alone.world == 1);
  CHECK(alone.node_count() == 1);
  CHECK(alone.node_size() == 1);
  CHECK(alone.rails == 1);
  auto const together = make_node_map(2, {"a", "a", "a"});
  CHECK(together.node_count() == 1);
  CHECK(together.node == 0);
  CHECK(together.index == 2);
  CHECK(together.rails == 3);
  CHECK(together.nodes == std::vector<std::vector<int>>{{0, 1, 2}});
}

TEST_CASE("node map: nodes are ordered by their lowest rank, however ranks are laid out", "[unit]") {
  auto const map = make_node_map(3, {"z", "a", "z", "a"});
  CHECK(map.nodes == std::vector<std::vector<int>>{{0, 2}, {1, 3}});
  CHECK(map.node_of == std::vector<int>{0, 1, 0, 1});
  CHECK(map.index_of == std::vector<int>{0, 0, 1, 1});
  CHECK(map.node == 1);
  CHECK(map.index == 1);
  CHECK(map.partner(0, 1) == 2);
}

TEST_CASE("node map: the smallest node decides the rails", "[unit]") {
  std::vector<std::string> const hosts{"a", "a", "a", "b", "c", "c"};
  for (int rank = 0; rank < 6; ++rank) {
    auto const map = make_node_map(rank, hosts);
    CHECK(map.rails == 1);
    CHECK(map.on_rail() == (rank == 0 || rank == 3 || rank == 4));
    CHECK(map.node_size() == (rank < 3 ? 3 : rank == 3 ? 1 : 2));
  }
}

TEST_CASE("node map: ten thousand ranks dealt out in turn", "[unit]") {
  constexpr int kWorld = 10'000;
  constexpr int kNodes = 1'250;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < kWorld; ++rank) {
    hosts.push_back("node" + std::to_string(rank % kNodes));
  }
  auto const map = make_node_map(9'999, hosts);
  REQUIRE(map.node_count() == kNodes);
  CHECK(map.rails == kWorld / kNodes);
  CHECK(map.node == kNodes - 1);
  CHECK(map.index == 7);
  bool right = true;
  for (int rank = 0; rank < kWorld; ++rank) {
    auto const at = static_cast<std::size_t>(rank);
    right = right && map.node_of[at] == rank % kNodes && map.index_of[at] == rank / kNodes &&
            map.partner(map.node_of[at], map.index_of[at]) == rank;
  }
  CHECK(right);
}

TEST_CASE("parts: they cover everything in order, are even, and begin on the grain", "[unit]") {
  for (std::size_t const count : {0U, 1U, 2U, 7U, 31U, 32U, 33U, 1000U, 4097U}) {
    for (int const parts : {1, 2, 3, 5, 8, 64}) {
      for (std::size_t const grain : {1U, 2U, 16U, 32U, 5000U}) {
        std::size_t next = 0;
        std::size_t least = SIZE_MAX;
        std::size_t most = 0;
        for (int index = 0; index < parts; ++index) {
          Range const part = part_of(count, index, parts, grain);
          REQUIRE(part.first == next);
          REQUIRE((part.first % grain == 0 || part.first == count));
          next += part.count;
          least = std::min(least, part.count);
          most = std::max(most, part.count);
        }
        REQUIRE(next == count);
        REQUIRE(most - least <= grain);
      }
    }
  }
}

TEST_CASE("parts: of the largest buffer there can be", "[unit]") {
  CHECK(part_of(SIZE_MAX, 0, 1, 32) == Range{0, SIZE_MAX});
  CHECK(part_of(SIZE_MAX, 1, 2, 32) == Range{SIZE_MAX / 2 + 1, SIZE_MAX / 2});
  CHECK(part_of(SIZE_MAX, 9'999, 10'000).first + part_of(SIZE_MAX, 9'999, 10'000).count == SIZE_MAX);
}

TEST_CASE("grouping: equal colors, by key and then by rank; none without a color") {
  std::vector<Wish> const wishes{{0, 5}, {1, 0}, {0, -1}, wish_of(std::nullopt, 0), {0, 5}, {-3, 0}};
  CHECK(members_of(wishes, 0) == Ranks{2, 0, 4});
  CHECK(members_of(wishes, 2) == Ranks{2, 0, 4});
  CHECK(members_of(wishes, 4) == Ranks{2, 0, 4});
  CHECK(members_of(wishes, 1) == Ranks{1});
  CHECK(members_of(wishes, 3).empty());
  CHECK(members_of(wishes, 5).empty());
}
