// SharedCollectives: the collectives of a world whose ranks all share the memory of one node. Shell;
// docs/design/host_backend.md.
#pragma once

#include <vector>

#include "src/runtime/cpu/node/node_exchange.hpp"

namespace cxxrun::host {

class SharedCollectives {
 public:
  explicit SharedCollectives(NodeExchange& exchange);

  /// Runs any kind of call except allocate.
  void run(comm::Call const& call, Patience const& patience);

 private:
  void run_small(comm::Call const& call, std::size_t bytes, Patience const& patience);
  void all_reduce(comm::Call const& call, Patience const& patience);
  void reduce_window(comm::Call const& call, ByteRange window, bool whole);
  void copy_window_out(comm::Call const& call, ByteRange window, std::size_t piece);
  template <class Take>
  void share(comm::Call const& call, std::size_t parts, void const* offered, Patience const& patience,
             Take const& take);
  void collect(comm::Call const& call, std::size_t parts, void const* offered, std::size_t wanted,
               Patience const& patience);
  void reduce_scatter(comm::Call const& call, Patience const& patience);
  void all_gather(comm::Call const& call, Patience const& patience);

  NodeExchange& exchange_;
  NodeGroup& group_;
  std::vector<void const*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace cxxrun::host
