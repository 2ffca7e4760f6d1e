// One NCCL communicator with everything that belongs to it. Shell.
//
// Blocking: when a call returns, its work is done or in the stream. It may wait inside NCCL for peers while connections
// are made, and in the driver while the device's queue is full. abort() lets such a thread come out first and frees
// nothing before. A separate thread connects the communicator.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/cuda/device.hpp"
#include "src/runtime/cuda/timeline.hpp"

#if NCCL_VERSION_CODE >= 22700
#define CXXRUN_CUDA_HAS_WINDOWS 1
using cxxrun_cuda_window = ncclWindow_t;  // NOLINT(readability-identifier-naming)
#else
#define CXXRUN_CUDA_HAS_WINDOWS 0
using cxxrun_cuda_window = void*;  // NOLINT(readability-identifier-naming)
#endif

namespace cxxrun::cuda {

/// Device memory of a communicator: NCCL's own allocations, registered with it.
///
/// From NCCL 2.29.7 on the memory is registered as symmetric windows, for which NCCL has its fastest kernels. In older
/// versions these kernels cannot be aborted, so the death of a peer on the same node could not be survived. The version
/// of the loaded library is checked at run time. Registering a window is collective: every rank of a communicator
/// allocates the same sizes in the same order.
class Memory {
 public:
  Memory() = default;
  Memory(Memory const&) = delete;
  Memory& operator=(Memory const&) = delete;
  /// Frees all memory. The communicator must be gone, because it may still use the memory.
  ~Memory();

  /// Allocates memory, zeroed on `stream`; `of_nccl`: for use by NCCL's collectives. It is freed only by the
  /// destructor, because freeing device memory waits for the device.
  std::int32_t allocate(bool of_nccl, std::uint64_t bytes, cudaStream_t stream, void** memory, Status* status);
  /// Registers the last allocation.
  std::int32_t register_last(ncclComm_t comm, Status* status);
  /// Deregisters everything. Call it before finalizing; an abort does it by itself.
  std::int32_t deregister(ncclComm_t comm, Status* status);

 private:
  struct Piece {
    void* memory = nullptr;
    std::uint64_t bytes = 0;
    cxxrun_cuda_window window = nullptr;
    void* handle = nullptr;  ///< from ncclCommRegister
    bool nccl = false;       ///< from ncclMemAlloc
  };

  std::vector<Piece> pieces_;
};

}  // namespace cxxrun::cuda

/// Declared in plugin_api.h.
struct cxxrun_cuda_comm {  // NOLINT(readability-identifier-naming)
  explicit cxxrun_cuda_comm(int on_device) : device(on_device) {}

  int device;
  int rank = 0;
  int world = 1;
  ncclComm_t nccl = nullptr;  ///< null in a world of one. While NCCL connects, it writes this: read it by nccl_so_far()
  std::atomic<bool> connecting{false};  ///< `connector` is inside NCCL
  std::atomic<bool> in_nccl{false};     ///< the thread that makes calls is inside NCCL
  std::atomic<bool> aborted{false};     ///< from now on no thread enters NCCL
  std::atomic<bool> silent{false};      ///< and no thread is inside any more: nothing can be launched
  std::atomic<bool> given_up{false};    ///< abort() has finished
  std::string name;                     ///< NCCL keeps a pointer to it

  std::thread connector;
  cxxrun::cuda::Status connected{};  ///< result of connecting

  cxxrun::cuda::Timeline timeline;
  cxxrun::cuda::Memory memory;
  void* scratch = nullptr;  ///< for wire formats; allocated like all memory that collectives use
  std::uint64_t scratch_bytes = 0;
  double* partial = nullptr;  ///< kSquareBlocks sums
  void* spare = nullptr;      ///< saves a part of a user's buffer; local to this rank, not registered
  std::uint64_t spare_bytes = 0;
};

namespace cxxrun::cuda {

using Comm = cxxrun_cuda_comm;

/// Gives access to NCCL's communicator for one call of NCCL; null if it was aborted, finalized, or does not exist.
/// abort() may come at any time, and waits until this object is gone before it frees anything.
class InNccl {
 public:
  explicit InNccl(Comm* comm) : comm_(comm) {
    comm->in_nccl = true;
    nccl_ = comm->aborted || comm->connecting ? nullptr : comm->nccl;
  }
  InNccl(InNccl const&) = delete;
  InNccl& operator=(InNccl const&) = delete;
  ~InNccl() { comm_->in_nccl = false; }
  [[nodiscard]] ncclComm_t get() const { return nccl_; }

 private:
  Comm* comm_;
  ncclComm_t nccl_ = nullptr;
};

/// Memory::allocate(), and registers the memory.
std::int32_t allocate(Comm* comm, std::uint64_t bytes, void** memory, Status* status);

/// OK if something may be queued now; otherwise the reason in `status`.
std::int32_t ready(Comm* comm, Status* status);

std::int32_t enqueue(Comm* comm, cxxrun_cuda_call const* call, Status* status);

}  // namespace cxxrun::cuda
