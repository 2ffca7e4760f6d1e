// HostBackend: collectives on the CPU. Shared memory within the node, rails between nodes. Shell.
//
// all_reduce over several nodes: the ranks of a node reduce slice i of their buffers into rank i's; rail i reduces that
// slice over the nodes; rank i writes it to everybody in its node. Each element is calculated once, in a fixed order.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/node_map.hpp"
#include "src/host/common/backend.hpp"
#include "src/host/rails/rails.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::host {

struct HostConfig {
  comm::NodeMap map;
  std::vector<std::string> hosts;  ///< by rank, for messages
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;  ///< of this communicator, the same on all ranks
  bool enough_cpus = true;  ///< this node's ranks have a CPU each: waiting may spin
  std::chrono::milliseconds op_timeout{};
  std::vector<StoreAddress> addresses;  ///< by rank; empty where all share one node
  std::function<bool()> is_over = {};   ///< of any thread: the launcher has ended this generation (NodeConfig)
};

/// `segment`: the node's memfd, the same file in all its ranks, empty at first; unused when the node has one rank.
/// `listener`: of this rank, if it is on a rail of several nodes. Blocks until the node has met and rails are
/// connected.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(HostConfig config, os::UniqueFd segment, RailListener listener,
                                                         std::chrono::milliseconds init_timeout);

}  // namespace cxxrun::host
