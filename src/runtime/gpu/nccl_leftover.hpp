// The end of an NCCL communicator: the gate that marks its results as invalid, and what remains of it for a while.
// Shell.
#pragma once

#include <cstddef>
#include <memory>

#include "src/base/core/time.hpp"
#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::gpu {

// ---- The gate: a flag of the program in memory that the device can read. Work queued behind a collective checks it to
// see whether the collective's results are valid. Threads: any.

/// Sets the flag: 1 is stored there before NCCL is aborted, that is, before results become invalid. Null: no flag.
void set_gate(float* flag) noexcept;
/// Stores the 1. Call it before an abort lets the stream go on.
void shut_gate() noexcept;

// ---- A communicator that is being ended

/// An NCCL communicator that is being ended, which may take longer than anybody waits for it.
///
/// ncclCommAbort() ends the kernels within a fraction of a second. The rest waits for NCCL's threads, and those wait
/// for the threads of the node's other ranks. So it runs on a thread of its own, while this process makes its next
/// communicator.
class Leftover {
 public:
  /// How many may remain in a process when it starts another communicator.
  static constexpr std::size_t kMost = 8;

  enum class How : std::uint8_t { abort, finalize };
  /// Frees the communicator, or leaves that to the thread if it has not finished.
  struct Leave {
    void operator()(Leftover* left) const noexcept;
  };
  using Owner = std::unique_ptr<Leftover, Leave>;

  /// Starts an abort or an orderly end. Throws if no thread can be started.
  [[nodiscard]] static Owner begin(cxxrun_cuda_api const& api, cxxrun_cuda_comm* comm, How how);
  Leftover(Leftover const&) = delete;
  Leftover& operator=(Leftover const&) = delete;

  /// Waits until it has ended; false if that takes longer than `patience`.
  [[nodiscard]] bool await(Millis patience) const;
  /// Waits until at most `most` remain in this process; false if that takes longer than `patience`.
  [[nodiscard]] static bool await_others(std::size_t most, Millis patience);

 private:
  Leftover(cxxrun_cuda_api const& api, cxxrun_cuda_comm* comm) : api_(api), comm_(comm) {}
  ~Leftover();
  void carry_out(How how) noexcept;

  cxxrun_cuda_api const& api_;
  cxxrun_cuda_comm* comm_;
  bool over_ = false;   ///< under the lock of all()
  bool alone_ = false;  ///< likewise: the owner has gone
};

/// Whether exit() has begun: then CUDA may be gone and must not be called any more.
[[nodiscard]] bool process_ends();
/// Call it before CUDA is used: from then on process_ends() works, and exit() waits for the leftovers.
void register_exit_handler();

}  // namespace cxxrun::gpu
