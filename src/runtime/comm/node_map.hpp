// NodeMap: which ranks share memory, and which ones talk over the network. Pure.
//
// Ranks with the same host key form a node. Nodes are ordered by their lowest rank, ranks within a node by number. A
// rail is the set of ranks with the same index in their nodes; rail i carries slice i of every buffer between the
// nodes. There are as many rails as the smallest node has ranks. Ranks beyond that only take part within their node.
//
// And grouping: which ranks form a group in a split, and in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cxxrun::comm {

struct NodeMap {
  int rank = 0;
  int world = 1;
  int node = 0;   ///< of this rank
  int index = 0;  ///< of this rank within its node
  int rails = 1;
  std::vector<std::vector<int>> nodes;  ///< ranks by node and index
  std::vector<int> node_of;             ///< by rank
  std::vector<int> index_of;            ///< by rank

  [[nodiscard]] int node_count() const { return static_cast<int>(nodes.size()); }
  [[nodiscard]] int node_size() const { return static_cast<int>(nodes[static_cast<std::size_t>(node)].size()); }
  [[nodiscard]] bool on_rail() const { return index < rails; }
  /// The rank with index `rail` on another node.
  [[nodiscard]] int partner(int other_node, int rail) const {
    return nodes[static_cast<std::size_t>(other_node)][static_cast<std::size_t>(rail)];
  }
  bool operator==(NodeMap const&) const = default;
};

/// `hosts` by rank: ranks with equal strings share memory.
[[nodiscard]] NodeMap make_node_map(int rank, std::vector<std::string> const& hosts);

/// A range of elements. part_of() gives part `index` of `parts` of `count` elements: as even as possible, with borders
/// at multiples of `grain` elements.
struct Range {
  std::size_t first = 0;
  std::size_t count = 0;
  bool operator==(Range const&) const = default;
};
[[nodiscard]] Range part_of(std::size_t count, int index, int parts, std::size_t grain = 1);

/// What one rank asks for in a split. Sent between processes as raw bytes.
struct Wish {
  std::int32_t color = -1;  ///< negative: no group
  std::int32_t key = 0;
};

[[nodiscard]] inline Wish wish_of(std::optional<int> color, int key) {
  return {color.value_or(-1), key};
}

/// The ranks with the color of `rank`, by key and then by rank; empty if it wants no group.
[[nodiscard]] std::vector<int> members_of(std::span<Wish const> wishes, int rank);

}  // namespace cxxrun::comm
