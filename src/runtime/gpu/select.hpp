// Select: loads the CUDA plugin, opens the device and decides the backend of this process. The shell around choose().
#pragma once

#include <string>

#include "cxxrun/error.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/runtime/gpu/choice.hpp"

namespace cxxrun::gpu {

struct Selection {
  Backend backend = Backend::host;
  cxxrun_cuda_api const* api = nullptr;  ///< this and the rest only for nccl
  cxxrun_cuda_device_facts device{};
  int nccl = 0;
  int nccl_settings = 0;  ///< the newest NCCL version whose settings both the library and the plugin know
  std::string nccl_host;  ///< NCCL_HOSTID
};

/// CXXRUN_BACKEND overrides `asked`. Does nothing unless NCCL is asked for; then it blocks while the device is opened
/// (up to seconds). Errors (environment, io): why this rank cannot take part, and the remedy.
[[nodiscard]] Result<Selection> select(Backend asked, WorkerEnv const& env);

}  // namespace cxxrun::gpu
