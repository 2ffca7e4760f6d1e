// NcclBackend: collectives on device memory with NCCL, through the plugin's table. Shell; docs/design/nccl_backend.md.
#pragma once

#include <memory>

#include "src/runtime/gpu/nccl_peers.hpp"

namespace cxxrun::gpu {

/// Collective. Blocks until NCCL is connected, at most until `deadline`. Throws Failure and PeerFailure.
[[nodiscard]] std::unique_ptr<host::Backend> make_nccl_backend(NcclConfig config, std::unique_ptr<host::Backend> host,
                                                               TimePoint deadline);

}  // namespace cxxrun::gpu
