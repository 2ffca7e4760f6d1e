// Errors of CUDA and NCCL as what crosses the border: a code and one sentence. Shell.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::cuda {

using Status = cxxrun_cuda_status;

/// These fill `status` and return its code. `call` is what was called: "cudaMalloc", "the first kernel".
std::int32_t fine(Status* status);
std::int32_t in_progress(Status* status);
std::int32_t failed(Status* status, char const* call, cudaError_t error);
/// One of the two.
std::int32_t outcome(Status* status, char const* call, cudaError_t error);
/// With the reason NCCL wrote down last.
std::int32_t failed(Status* status, char const* call, ncclResult_t error);
/// What a caller may not do: an NCCL error of code `error`, in words of our own.
std::int32_t refused(Status* status, ncclResult_t error, char const* sentence);
std::int32_t unsupported(Status* status, char const* sentence);

/// The number NCCL gives its versions from 2.9 on, whatever macros its header has.
constexpr int nccl_version(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}
/// Nothing older is used: ncclMemAlloc came with it.
inline constexpr int kOldestNccl = nccl_version(2, 19, 0);
/// Of the library that was loaded.
int loaded_nccl();
/// OK, or UNSUPPORTED with a sentence when the loaded library is older than kOldestNccl.
std::int32_t check_nccl(Status* status);

}  // namespace cxxrun::cuda
