// The device of this process, and what can be known before one is used. Shell.
#pragma once

#include "src/runtime/cuda/status.hpp"

namespace cxxrun::cuda {

void facts(cxxrun_cuda_facts* facts);
std::int32_t open_device(std::int32_t ordinal, cxxrun_cuda_device_facts* facts, Status* status);
/// The one that was opened last; -1 before.
int opened_device();
std::int32_t is_device_memory(void const* pointer, Status* status);
std::int32_t is_captured(void* stream, Status* status);

/// Makes `device` the calling thread's for as long as this lives: the current device belongs to the thread, and the
/// thread may be the user's. What is asked of CUDA meanwhile ends no capture of the program's into a graph.
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
