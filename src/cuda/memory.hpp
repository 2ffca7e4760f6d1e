// Device memory of a communicator: NCCL's own allocations, registered as symmetric windows where NCCL has them. Shell.
//
// Registering is collective: every rank of a communicator allocates the same sizes in the same order. NCCL before
// 2.29.7 keeps a window's memory for ever when a communicator is aborted. Such memory is not given back here either,
// but handed out again by the next allocation of that size: a job that is rebuilt again and again needs no more.
#pragma once

#include <list>

#include "src/cuda/status.hpp"

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
  explicit Memory(int device) : device_(device) {}
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  /// Gives everything back. The communicator must be gone: what it still uses would be pulled from under it.
  ~Memory();

  /// `comm` is null in a world of one. Zeroed on `stream`. IN_PROGRESS: *memory is there, but the window is not yet.
  std::int32_t allocate(ncclComm_t comm, std::uint64_t bytes, cudaStream_t stream, void** memory, Status* status);
  /// In good health, before the communicator is finalized.
  std::int32_t close_windows(ncclComm_t comm, Status* status);
  /// The communicator was aborted, and its windows went with it.
  void lose_windows() { windows_lost_ = true; }

 private:
  struct Piece {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    cxxrun_cuda_window window = nullptr;  ///< NCCL writes it when the window is there: it must not move
    bool nccl = false;                    ///< of ncclMemAlloc
  };

  int device_;
  bool windows_lost_ = false;
  std::list<Piece> pieces_;
};

}  // namespace cxxrun::cuda
