// HostBackend: collectives on the CPU. Shared memory within the node, rails between nodes. Shell.
#pragma once

#include "src/runtime/cpu/node/node_group.hpp"
#include "src/runtime/cpu/rails/rails.hpp"

namespace cxxrun::host {

/// `segment`: the node's memfd, the same file in all its ranks, empty at first; unused when the node has one rank.
/// `listener`: of this rank, if it is on a rail of several nodes. Blocks until the node has met and rails are
/// connected.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(HostConfig config, os::UniqueFd segment, RailListener listener,
                                                         std::chrono::milliseconds init_timeout);

}  // namespace cxxrun::host
