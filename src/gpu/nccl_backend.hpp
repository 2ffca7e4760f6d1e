// NcclBackend: collectives on device memory with NCCL, through the plugin's table. Shell; docs/design/nccl_backend.md.
//
// It owns a host backend beside it. Calls on host memory go there, and so does everything about the peers: NCCL does
// not notice a rank that dies on the same node, the host backend does, within a millisecond. Whoever waits for the
// device looks at it; while calls are under way and nobody waits inside this library, a thread of this object does,
// so that a program blocked in cudaStreamSynchronize gets free too.
//
// What goes wrong ends the communicator of NCCL's by abort(), on a thread of its own. If that is not through in
// abort_deadline, nothing can be done from within the process: it says so and ends with code 75.
#pragma once

#include <memory>

#include "src/gpu/nccl_peers.hpp"

namespace cxxrun::gpu {

/// Collective. Blocks until NCCL is connected, at most until `deadline`. Throws Failure and PeerFailure.
[[nodiscard]] std::unique_ptr<host::Backend> make_nccl_backend(NcclConfig config, std::unique_ptr<host::Backend> host,
                                                               TimePoint deadline);

}  // namespace cxxrun::gpu
