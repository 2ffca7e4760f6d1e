// HostBackend: collectives on the CPU, with shared memory within a node and rails between nodes. Shell.
#pragma once

#include "src/runtime/cpu/node/node_group.hpp"
#include "src/runtime/cpu/rails/rails.hpp"

namespace cxxrun::host {

/// `segment`: the node's memfd, the same file in all its ranks, initially empty; unused if the node has one rank.
/// `listener`: this rank's, if it is on a rail of several nodes. Blocks until the node has met and its rails are
/// connected.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(HostConfig config, os::UniqueFd segment, RailListener listener,
                                                         std::chrono::milliseconds init_timeout);

}  // namespace cxxrun::host
