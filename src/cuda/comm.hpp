// One communicator of NCCL's with what belongs to it. Shell.
//
// Non-blocking: nearly every call of NCCL answers "in progress" and goes on in a thread of NCCL's, which launches the
// kernel. Until then nothing may be put on the stream after it. So a collective is a few steps, and the ones that
// remain are taken by poll().
#pragma once

#include <atomic>
#include <string>

#include "src/cuda/memory.hpp"
#include "src/cuda/timeline.hpp"

/// What remains to be done of a call, in this order.
enum class CxxrunCudaStep : std::uint8_t { none, before, collective, after };

/// Named by plugin_api.h.
struct cxxrun_cuda_comm {  // NOLINT(readability-identifier-naming)
  explicit cxxrun_cuda_comm(int on_device) : device(on_device) {}

  int device;
  int rank = 0;
  int world = 1;
  std::atomic<ncclComm_t> nccl{nullptr};  ///< null in a world of one, and when it is aborted or finalized
  std::atomic<bool> in_nccl{false};       ///< a thread is inside one of its functions
  std::atomic<bool> aborted{false};
  std::atomic<bool> silent{false};    ///< from now on nothing can be launched: only what runs has to end
  std::atomic<bool> given_up{false};  ///< abort() has come back
  bool finalizing = false;
  std::string name;  ///< NCCL keeps a pointer to it

  CxxrunCudaStep step = CxxrunCudaStep::none;
  cxxrun_cuda_call call{};

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
using Step = CxxrunCudaStep;

/// NCCL's communicator for one call of NCCL's; null when it was aborted, finalized, or never was. abort() may come at
/// any moment, and waits for the end of this unless that takes long.
class InNccl {
 public:
  explicit InNccl(Comm* comm) : comm_(comm) {
    comm->in_nccl = true;
    nccl_ = comm->nccl;
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
/// Takes the steps that remain, as far as they go now.
std::int32_t advance(Comm* comm, Status* status);

}  // namespace cxxrun::cuda
