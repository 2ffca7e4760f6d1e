// NodeMap: which ranks share memory, and which ones talk over the network. Pure.
//
// Ranks with the same host key form a node; nodes are ordered by their lowest rank, ranks within a node by number.
// A rail is the set of ranks with the same index in their nodes: rail i carries slice i of every buffer between the
// nodes. There are as many rails as the smallest node has ranks; ranks beyond that take part inside their node only.
#pragma once

#include <string>
#include <vector>

namespace cxxrun::comm {

struct NodeMap {
  int rank = 0;
  int world = 1;
  int node = 0;   ///< mine
  int index = 0;  ///< mine within my node
  int rails = 1;
  std::vector<std::vector<int>> nodes;  ///< ranks by node and index
  std::vector<int> node_of;             ///< by rank
  std::vector<int> index_of;            ///< by rank

  [[nodiscard]] int node_count() const { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_size() const { return static_cast<int>(nodes[static_cast<std::size_t>(node)].size()); }
  [[nodiscard]] bool on_rail() const { return index < rails; }
  /// The rank that stands for index `rail` on another node.
  [[nodiscard]] int partner(int other_node, int rail) const {
    return nodes[static_cast<std::size_t>(other_node)][static_cast<std::size_t>(rail)];
  }
  bool operator==(NodeMap const&) const = default;
};

/// `hosts` by rank: equal strings share memory.
[[nodiscard]] NodeMap make_node_map(int rank, std::vector<std::string> const& hosts);

/// Part `index` of `parts` of `count` elements: as even as possible, borders on multiples of `grain` elements.
struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(Range const&) const = default;
};
[[nodiscard]] Range part_of(std::size_t count, int index, int parts, std::size_t grain = 1);

}  // namespace cxxrun::comm
