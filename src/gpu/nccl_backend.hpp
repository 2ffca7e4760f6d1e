// NcclBackend: collectives on device memory with NCCL, through the plugin's table. Shell; docs/nccl_backend.md.
//
// It owns a host backend beside it. Calls on host memory go there, and so does everything about the peers: NCCL does
// not notice a rank that dies on the same node, the host backend does, within a millisecond. Whoever waits for the
// device looks at it; while calls are under way and nobody waits inside this library, a thread of this object does,
// so that a program blocked in cudaStreamSynchronize gets free too.
//
// What goes wrong ends the communicator of NCCL's by abort(), on a thread of its own. If that is not through in
// abort_deadline, nothing can be done from within the process: it says so and ends with code 75.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "src/core/time.hpp"
#include "src/cuda/plugin_api.h"
#include "src/host/common/backend.hpp"

namespace cxxrun::gpu {

/// Of a process that cannot give up its communicator: EX_TEMPFAIL, try again.
inline constexpr int kStartMeAnew = 75;

struct NcclConfig {
  cxxrun_cuda_api const* api = nullptr;  ///< with the device opened
  std::string device;                    ///< "NVIDIA H200 (GPU-…)", for messages
  int nccl = 0;
  int rank = 0;
  std::vector<std::string> hosts;  ///< by rank
  std::uint64_t generation = 0;
  Millis op_timeout{};
  Millis abort_deadline{};
};

/// Collective. Blocks until NCCL is connected, at most until `deadline`. Throws Failure and PeerFailure.
[[nodiscard]] std::unique_ptr<host::Backend> make_nccl_backend(NcclConfig config, std::unique_ptr<host::Backend> host,
                                                               TimePoint deadline);

}  // namespace cxxrun::gpu
