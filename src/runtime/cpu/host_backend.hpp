// The backends on the CPU: HostBackend, with shared memory within a node and rails between nodes, and SoloBackend, for
// a world of one. Shell.
#pragma once

#include "src/runtime/cpu/node/node_group.hpp"
#include "src/runtime/cpu/rails/rails.hpp"

namespace cxxrun::host {

/// `segment`: the node's memfd, the same file in all its ranks, initially empty; unused if the node has one rank.
/// `listener`: this rank's, if it is on a rail of several nodes. Blocks until the node has met and its rails are
/// connected.
[[nodiscard]] std::unique_ptr<Backend> make_host_backend(HostConfig config, os::UniqueFd segment, RailListener listener,
                                                         std::chrono::milliseconds init_timeout);

/// The backend of a world of one. `holder`: "rank 0 on node1", for messages.
[[nodiscard]] std::unique_ptr<Backend> make_solo_backend(std::string holder, std::uint64_t generation = 0);

}  // namespace cxxrun::host
