#include "src/runtime/comm/node_map.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <unordered_map>

namespace cxxrun::comm {

NodeMap make_node_map(int rank, std::vector<std::string> const& hosts) {
  assert(rank >= 0 && rank < static_cast<int>(hosts.size()));
  NodeMap map;
  map.rank = rank;
  map.world = static_cast<int>(hosts.size());
  map.node_of.reserve(hosts.size());
  map.index_of.reserve(hosts.size());
  std::unordered_map<std::string, int> known;
  for (auto const& host : hosts) {
    int const node = known.try_emplace(host, map.node_count()).first->second;
    if (node == map.node_count()) {
      map.nodes.emplace_back();
    }
    auto& ranks = map.nodes[static_cast<std::size_t>(node)];
    map.node_of.push_back(node);
    map.index_of.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(map.node_of.size()) - 1);
  }
  auto const smaller = [](auto const& a, auto const& b) { return a.size() < b.size(); };
  map.rails = static_cast<int>(std::min_element(map.nodes.begin(), map.nodes.end(), smaller)->size());
  map.node = map.node_of[static_cast<std::size_t>(rank)];
  map.index = map.index_of[static_cast<std::size_t>(rank)];
  return map;
}

Range part_of(std::size_t count, int index, int parts, std::size_t grain) {
  assert(grain > 0 && index >= 0 && index < parts);
  std::size_t const blocks = count / grain + (count % grain == 0 ? 0 : 1);
  std::size_t const each = blocks / static_cast<std::size_t>(parts);
  std::size_t const left_over = blocks % static_cast<std::size_t>(parts);
  // The last parts get the remaining blocks. The last block may be short; so sizes differ by at most one grain.
  std::size_t const without = static_cast<std::size_t>(parts) - left_over;
  auto const border = [&](std::size_t part) {
    std::size_t const block = part * each + (part > without ? part - without : 0);
    return block < blocks ? block * grain : count;  // blocks * grain may overflow
  };
  std::size_t const first = border(static_cast<std::size_t>(index));
  return {first, border(static_cast<std::size_t>(index) + 1) - first};
}

std::vector<int> members_of(std::span<Wish const> wishes, int rank) {
  auto const wish = [&](int of) { return wishes[static_cast<std::size_t>(of)]; };
  std::vector<int> members;
  for (int other = 0; other < static_cast<int>(wishes.size()); ++other) {
    if (wish(rank).color >= 0 && wish(other).color == wish(rank).color) {
      members.push_back(other);
    }
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return wish(a).key < wish(b).key; });
  return members;
}

}  // namespace cxxrun::comm
