// Select: the backend of this process, with the CUDA plugin loaded and its device opened. Shell around `choose`.
#pragma once

#include <string>

#include "cxxrun/error.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/runtime/gpu/choice.hpp"

namespace cxxrun::gpu {

struct Selection {
  Backend backend = Backend::host;
  cxxrun_cuda_api const* api = nullptr;  ///< of nccl, as the rest
  cxxrun_cuda_device_facts device{};
  int nccl = 0;
  int nccl_settings = 0;  ///< the newest NCCL whose settings both the library and the plugin know
  std::string nccl_host;  ///< NCCL_HOSTID
};

/// CXXRUN_BACKEND counts more than `asked`. Nothing is looked for unless NCCL is asked for; then it blocks while the
/// device is opened (up to seconds). Errors (environment, io): why this rank cannot take part, and what to do.
[[nodiscard]] Result<Selection> select(Backend asked, WorkerEnv const& env);

}  // namespace cxxrun::gpu
