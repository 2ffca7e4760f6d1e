// A node of several ranks for tests of the host backend: what Communicator::init would hand it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "src/host/host_backend.hpp"

namespace cxxrun::test {

struct NodeWorld {
  int ranks = 1;
  std::chrono::milliseconds op_timeout = std::chrono::seconds(60);
  bool enough_cpus = true;
  os::UniqueFd memory{memfd_create("cxxrun test", MFD_CLOEXEC)};  ///< made before the fork

  /// In the child that is `rank`.
  [[nodiscard]] std::unique_ptr<host::Backend> join(int rank) const {
    host::HostConfig config;
    config.hosts.assign(static_cast<std::size_t>(ranks), "here");
    config.map = comm::make_node_map(rank, config.hosts);
    config.generation = 7;
    config.nonce = 4711;
    config.enough_cpus = enough_cpus;
    config.op_timeout = op_timeout;
    return host::make_host_backend(config, os::UniqueFd(dup(memory.get())), {}, std::chrono::seconds(60));
  }
};

}  // namespace cxxrun::test
