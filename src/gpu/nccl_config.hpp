// NcclConfig: what the NCCL backend is made from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/core/time.hpp"
#include "src/cuda/plugin_api.h"

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

}  // namespace cxxrun::gpu
