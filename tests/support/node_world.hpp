// Nodes of several ranks for tests of the host backend, all on this machine: what Communicator::init would hand it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "src/runtime/cpu/host_backend.hpp"
#include "src/runtime/cpu/rails/rail_link.hpp"

namespace cxxrun::test {

class NodeWorld {
 public:
  /// Made before the fork. Ranks are numbered node by node; node 0 is called "here" if it is alone, else "node0".
  explicit NodeWorld(std::vector<int> const& sizes, bool enough_cpus = false,
                     std::chrono::milliseconds op_timeout = std::chrono::seconds(60)) {
    config_.generation = 7;
    config_.nonce = 4711;
    config_.enough_cpus = enough_cpus;
    config_.op_timeout = op_timeout;
    for (std::size_t node = 0; node < sizes.size(); ++node) {
      memory_.emplace_back(memfd_create("cxxrun test", MFD_CLOEXEC));
      for (int i = 0; i < sizes[node]; ++i) {
        config_.hosts.push_back(sizes.size() == 1 ? "here" : "node" + std::to_string(node));
        if (sizes.size() > 1) {
          listeners_.push_back(host::listen_for_rails("127.0.0.1"));
          config_.addresses.push_back(listeners_.back().address);
        }
      }
    }
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(config_.hosts.size()); }

  /// In the child that is `rank`.
  [[nodiscard]] std::unique_ptr<host::Backend> join(int rank) {
    auto config = config_;
    config.map = comm::make_node_map(rank, config.hosts);
    host::RailListener listener;
    if (!listeners_.empty()) {
      listener = std::move(listeners_[static_cast<std::size_t>(rank)]);
      listeners_.clear();
    }
    auto const node = static_cast<std::size_t>(config.map.node);
    return host::make_host_backend(std::move(config), os::UniqueFd(dup(memory_[node].get())), std::move(listener),
                                   std::chrono::seconds(60));
  }

 private:
  host::HostConfig config_;
  std::vector<os::UniqueFd> memory_;
  std::vector<host::RailListener> listeners_;
};

}  // namespace cxxrun::test
