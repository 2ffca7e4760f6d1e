// Leftover: a communicator of NCCL's that is being ended, which may take longer than anybody waits for it. Shell.
//
// ncclCommAbort() ends the kernels within a fraction of a second. The rest waits for NCCL's threads, and they for those
// of the node's other ranks. So it goes on on a thread of its own while this process makes its next communicator.
#pragma once

#include <cstddef>
#include <memory>

#include "src/base/core/time.hpp"
#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::gpu {

class Leftover {
 public:
  /// So many may be left in a process when it begins another communicator.
  static constexpr std::size_t kMost = 8;

  enum class How : std::uint8_t { abort, finalize };
  /// Gives the communicator's memory back, or leaves that to the thread where it has not come to its end.
  struct Leave {
    void operator()(Leftover* left) const noexcept;
  };
  using Owner = std::unique_ptr<Leftover, Leave>;

  /// Begins to abort it, or to end it in good order. Throws when no thread can be started.
  [[nodiscard]] static Owner begin(cxxrun_cuda_api const& api, cxxrun_cuda_comm* comm, How how);
  Leftover(Leftover const&) = delete;
  Leftover& operator=(Leftover const&) = delete;

  /// False: it is not over within `patience`.
  [[nodiscard]] bool await(Millis patience) const;
  /// Waits until at most so many are left in this process; false: they are not, within `patience`.
  [[nodiscard]] static bool await_others(std::size_t most, Millis patience);

 private:
  Leftover(cxxrun_cuda_api const& api, cxxrun_cuda_comm* comm) : api_(api), comm_(comm) {}
  ~Leftover();
  void carry_out(How how) noexcept;

  cxxrun_cuda_api const& api_;
  cxxrun_cuda_comm* comm_;
  bool over_ = false;   ///< with the lock of all
  bool alone_ = false;  ///< too: the owner has gone
};

/// exit() has begun: CUDA may be gone, and nothing is asked of it any more.
[[nodiscard]] bool process_ends();
/// To be called when CUDA is in use: process_ends() is right from then on, and exit() waits for what is left.
void heed_exit();

}  // namespace cxxrun::gpu
