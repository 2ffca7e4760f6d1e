// ClusterCollectives: the collectives of a world of several nodes. Shell; docs/design/host_backend.md.
//
// Nodes may have different numbers of ranks. A rank beyond the rails has a carrier: the rank of its node whose index is
// its own modulo the number of rails. Carriers take their ranks in rounds, and all nodes make the same number of
// rounds.
//
// Every rail takes part in every call, even if its slice is empty (in a small call only the first rail, which takes
// part in all). That way nodes that make different calls notice it.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "src/runtime/cpu/node/node_exchange.hpp"
#include "src/runtime/cpu/rails/rails.hpp"

namespace cxxrun::host {

class ClusterCollectives {
 public:
  /// `rails` is null for a rank beyond the rails. All arguments must outlive this object. `grace`: Patience::grace on
  /// rails.
  ClusterCollectives(NodeExchange& exchange, comm::NodeMap const& map, Rails* rails, std::chrono::milliseconds grace);

  /// Runs any kind of call except allocate.
  void run(comm::Call const& call, Patience const& patience);
  /// Returns when all nodes have come here with the same call. Every rank of this node must have entered that call.
  void agree(comm::Call const& call, Patience const& patience);

 private:
  void all_reduce_small(comm::Call const& call, std::size_t bytes, Patience const& patience);
  void broadcast_small(comm::Call const& call, std::size_t bytes, Patience const& patience);
  void all_reduce(comm::Call const& call, Patience const& patience);
  void reduce_slices(comm::Call const& call, Patience const& patience);
  void take_slices(comm::Call const& call, Patience const& patience);
  void broadcast(comm::Call const& call, Patience const& patience);
  void all_gather(comm::Call const& call, Patience const& patience);
  void gather_node(comm::Call const& call, Patience const& patience);
  void take_other_nodes(comm::Call const& call, Patience const& patience);

  struct Chunk {
    std::size_t part = 0;   ///< bytes of one rank's part
    std::size_t first = 0;  ///< offset of the chunk in each part
    std::size_t bytes = 0;
    int round = 0;
    bool begins = false;  ///< this is the first chunk of the call
  };
  void reduce_scatter(comm::Call const& call, Patience const& patience);
  void reduce_parts(comm::Call const& call, Chunk const& chunk, Patience const& patience);
  void scatter_parts(comm::Call const& call, Chunk const& chunk, Patience const& patience);
  void hand_over(comm::Call const& call, Chunk const& chunk, Patience const& patience);
  void all_to_all(comm::Call const& call, Patience const& patience);
  void pack_blocks(comm::Call const& call, Chunk const& chunk, Patience const& patience);
  void exchange_blocks(comm::Call const& call, Chunk const& chunk, Patience const& patience);
  void unpack_blocks(comm::Call const& call, Chunk const& chunk, Patience const& patience);

  [[nodiscard]] int nodes() const { return map_.node_count(); }
  [[nodiscard]] int size_of_node(int node) const {
    return static_cast<int>(map_.nodes[static_cast<std::size_t>(node)].size());
  }
  /// The rank that `rail` carries in `round` on `node`, or -1.
  [[nodiscard]] int carried(int node, int rail, int round) const {
    int const index = rail + round * map_.rails;
    return rail < map_.rails && index < size_of_node(node) ? map_.partner(node, index) : -1;
  }
  /// Whether the contributions of nodes are f32, and width(): by which factor that makes elements longer. A node of one
  /// rank has nothing to round.
  [[nodiscard]] bool widens(comm::Call const& call) const {
    return largest_node_ > 1 && comm::sums_in_f32(call.type, call.op);
  }
  [[nodiscard]] std::size_t width(comm::Call const& call) const { return widens(call) ? 2 : 1; }
  template <class View>
  void reduce(comm::Call const& call, View const& view, std::size_t p, std::byte* to) {
    widens(call) ? exchange_.sum_to_f32(call, view, p, to) : exchange_.reduce(call, view, p, to);
  }
  [[nodiscard]] ByteRange slice(comm::Call const& call, int rail) const;
  [[nodiscard]] std::size_t longest_slice(comm::Call const& call) const;
  [[nodiscard]] Patience on_rail(Patience patience) const {
    patience.grace = grace_;
    return patience;
  }
  [[nodiscard]] std::byte* blocks_for(Scratch& scratch, int node, std::size_t bytes) const;
  void meet_or_enter(comm::Call const& call, Chunk const& chunk, NodeExchange::Offered const& offered,
                     Patience const& patience) {
    if (chunk.begins) {
      exchange_.enter(call, offered, patience);
    } else {
      exchange_.meet(patience);
    }
  }

  NodeExchange& exchange_;
  NodeGroup& group_;
  comm::NodeMap const& map_;
  Rails* rails_;
  std::chrono::milliseconds grace_;
  int rounds_ = 1;        ///< rounds that the largest node needs
  int largest_node_ = 1;  ///< ranks of the largest node
  Scratch send_;
  Scratch receive_;
  std::vector<std::byte const*> parts_;
  std::vector<std::span<std::byte const>> sends_;
  std::vector<std::span<std::byte>> receives_;
};

}  // namespace cxxrun::host
