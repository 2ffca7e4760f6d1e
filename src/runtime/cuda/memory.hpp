// Device memory of a communicator: NCCL's own allocations, registered with it. Shell.
//
// From NCCL 2.29.7 on they are symmetric windows, for which NCCL has its fastest kernels. Before it those kernels
// cannot be aborted: the death of a peer on the same node could not be survived. Which NCCL was loaded is asked at run
// time. Registering a window is collective: every rank of a communicator allocates the same sizes in the same order.
#pragma once

#include <vector>

#include "src/runtime/cuda/status.hpp"

#if NCCL_VERSION_CODE >= 22700
#define CXXRUN_CUDA_HAS_WINDOWS 1
using cxxrun_cuda_window = ncclWindow_t;  // NOLINT(readability-identifier-naming)
#else
#define CXXRUN_CUDA_HAS_WINDOWS 0
using cxxrun_cuda_window = void*;  // NOLINT(readability-identifier-naming)
#endif

namespace cxxrun::cuda {

class Memory {
 public:
  Memory() = default;
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  /// Gives everything back. The communicator must be gone: what it still uses would be pulled from under it.
  ~Memory();

  /// Zeroed on `stream`; what NCCL's collectives use is NCCL's own. It stays until the end: giving device memory back
  /// waits for the device.
  std::int32_t allocate(bool of_nccl, std::uint64_t bytes, cudaStream_t stream, void** memory, Status* status);
  /// What was allocated last.
  std::int32_t enlist(ncclComm_t comm, Status* status);
  /// In good health, before the communicator is finalized. An abort does it by itself.
  std::int32_t deregister(ncclComm_t comm, Status* status);

 private:
  struct Piece {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    cxxrun_cuda_window window = nullptr;
    void* handle = nullptr;  ///< of ncclCommRegister
    bool nccl = false;       ///< of ncclMemAlloc
  };

  std::vector<Piece> pieces_;
};

}  // namespace cxxrun::cuda
