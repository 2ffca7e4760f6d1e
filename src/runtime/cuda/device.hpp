// The device of this process, facts that are known without one, and errors of CUDA and NCCL as they cross the border: a
// code and one sentence. Shell.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::cuda {

// ---- errors

using Status = cxxrun_cuda_status;

/// These functions fill `status` and return its code. `call` is what failed: "cudaMalloc", "the first kernel".
std::int32_t fine(Status* status);
std::int32_t in_progress(Status* status);
/// This one also clears the thread's last error of CUDA.
std::int32_t failed(Status* status, char const* call, cudaError_t error);
/// Adds the last reason that NCCL recorded.
std::int32_t failed(Status* status, char const* call, ncclResult_t error);
/// fine() or failed().
std::int32_t outcome(Status* status, char const* call, cudaError_t error);
std::int32_t outcome(Status* status, char const* call, ncclResult_t error);
/// A call that is not allowed: an NCCL error of code `error` with our own sentence.
std::int32_t refused(Status* status, ncclResult_t error, char const* sentence);
std::int32_t unsupported(Status* status, char const* sentence);

/// NCCL's version number from 2.9 on, independent of the macros in its header.
constexpr int nccl_version(int major, int minor, int patch) {
  return major * 10000 + minor * 100 + patch;
}
/// Older versions are not used: ncclMemAlloc appeared in this one.
inline constexpr int kOldestNccl = nccl_version(2, 19, 0);
/// Version of the loaded library.
int loaded_nccl();
/// OK, or UNSUPPORTED with a sentence if the loaded library is older than kOldestNccl.
std::int32_t check_nccl(Status* status);

// ---- the device

void facts(cxxrun_cuda_facts* facts);
std::int32_t open_device(std::int32_t ordinal, cxxrun_cuda_device_facts* facts, Status* status);
/// The device that was opened last; -1 if none.
int opened_device();
std::int32_t is_device_memory(void const* pointer, Status* status);
std::int32_t is_captured(void* stream, Status* status);

/// Makes `device` current for the calling thread while this object lives; -1 leaves it alone. The current device
/// belongs to the thread, which may be the user's. It is restored if the process has a context on it: cudaSetDevice()
/// creates one, and every new thread begins with device 0, so all ranks of a node would take memory of its first GPU.
/// Calls of CUDA in the meantime do not end a graph capture of the program.
class OnDevice {
 public:
  explicit OnDevice(int device);
  OnDevice(OnDevice const&) = delete;
  OnDevice& operator=(OnDevice const&) = delete;
  ~OnDevice();

 private:
  int before_ = -1;  ///< -1: nothing to restore
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace cxxrun::cuda
