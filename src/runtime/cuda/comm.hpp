// One communicator of NCCL's with what belongs to it. Shell.
//
// Blocking: what a call has begun is done, or in the stream, when it returns. It may wait in there: for peers where
// NCCL makes connections, for the driver where the device's queue is full. Whoever aborts it lets such a thread come
// out and frees nothing before. A thread of its own connects it.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "src/runtime/cuda/memory.hpp"
#include "src/runtime/cuda/timeline.hpp"

/// Named by plugin_api.h.
struct cxxrun_cuda_comm {  // NOLINT(readability-identifier-naming)
  explicit cxxrun_cuda_comm(int on_device) : device(on_device) {}

  int device;
  int rank = 0;
  int world = 1;
  ncclComm_t nccl = nullptr;  ///< null in a world of one. NCCL writes it while it connects: early(), until then
  std::atomic<bool> connecting{false};  ///< `connector` is inside NCCL
  std::atomic<bool> in_nccl{false};     ///< whoever makes calls is
  std::atomic<bool> aborted{false};     ///< from now on nobody goes in
  std::atomic<bool> silent{false};      ///< nor is anybody in there any more: nothing can be launched
  std::atomic<bool> given_up{false};    ///< abort() has come back
  std::string name;                     ///< NCCL keeps a pointer to it

  std::thread connector;
  cxxrun::cuda::Status connected{};  ///< how that ended

  cxxrun::cuda::Timeline timeline;
  cxxrun::cuda::Memory memory;
  void* scratch = nullptr;  ///< for wire formats; allocated like everything collectives touch
  std::uint64_t scratch_bytes = 0;
  double* partial = nullptr;  ///< kSquareBlocks sums
  void* spare = nullptr;      ///< for what is in the way in a user's buffer; this rank's alone, not registered
  std::uint64_t spare_bytes = 0;
};

namespace cxxrun::cuda {

using Comm = cxxrun_cuda_comm;

/// NCCL's communicator for one call of NCCL's; null when it was aborted, finalized, or never was. abort() may come at
/// any moment, and waits for the end of this before it frees anything.
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

/// As Memory::allocate(), and registered.
std::int32_t allocate(Comm* comm, std::uint64_t bytes, void** memory, Status* status);

/// OK when something may be queued now; else why not, in `status`.
std::int32_t ready(Comm* comm, Status* status);

std::int32_t enqueue(Comm* comm, cxxrun_cuda_call const* call, Status* status);

}  // namespace cxxrun::cuda
