// Peers: the host backend beside NCCL, and what it says about whose failure something is. Shell.
//
// Threads: any. A call of one thread is not waited for by look() of another, and by settle() for 2 s at most.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/hurry.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/cuda/plugin_api.h"
#include "src/runtime/gpu/choice.hpp"

namespace cxxrun::gpu {

struct NcclConfig {
  cxxrun_cuda_api const* api = nullptr;  ///< with the device opened
  std::string device;                    ///< "NVIDIA H200 (GPU-…)", for messages
  int nccl = 0;
  int rank = 0;
  std::vector<std::string> hosts;  ///< by rank
  std::vector<int> names;          ///< by rank: what messages call it
  std::uint64_t generation = 0;
  Millis op_timeout{};
  Millis abort_deadline{};
  NcclSettings settings{};
  std::shared_ptr<host::Hurry> hurry = std::make_shared<host::Hurry>();  ///< of all waits, that for connecting too
};

/// Why the communicator of NCCL's is given up.
struct Reason {
  enum class Why : std::uint8_t {
    trouble,  ///< the host backend knows of a peer that is gone
    error,    ///< CUDA or NCCL said so: `error`
    late,     ///< nothing, for op_timeout
    told,     ///< the host backend has thrown it: `facts`
  };
  Why why = Why::trouble;
  Error error{};
  host::FailureFacts facts{};
  bool of_cuda = false;  ///< the error is CUDA's
};
/// What a call of the plugin's failed with.
[[nodiscard]] inline Reason reason_of(cxxrun_cuda_status const& status, std::string const& what) {
  return {.why = Reason::Why::error, .error = error_of(status, what), .of_cuda = status.code == CXXRUN_CUDA_CUDA};
}

/// What ranks tell each other when a device call did not end in time (docs/design/nccl_backend.md). Travels between
/// processes as it is.
struct CallReport {
  std::uint64_t number = 0;  ///< of the oldest call that is under way, from 1; 0: none is
  std::uint64_t made = 0;    ///< calls this rank has made
  comm::CallFields call{};   ///< that one
};

/// The sentence for the Failure that all ranks throw. By rank, `numbers`: what messages call it; `names`: "rank 2 on
/// node1".
[[nodiscard]] std::string verdict(std::span<CallReport const> ranks, std::span<int const> numbers,
                                  std::vector<std::string> const& names, std::string const& patience);

class Peers {
 public:
  /// `config` outlives this object.
  Peers(std::unique_ptr<host::Backend> host, NcclConfig const& config);

  [[nodiscard]] int world() const { return static_cast<int>(names_.size()); }
  [[nodiscard]] std::string const& here() const { return names_[static_cast<std::size_t>(config_.rank)]; }
  /// What messages call a rank.
  [[nodiscard]] int number(std::size_t rank) const { return numbers_[rank]; }
  [[nodiscard]] host::Backend& host() { return *host_; }

  /// Makes a call on host memory. False, and nothing done, when `alive` says no once its turn has come.
  [[nodiscard]] bool run(std::function<void(host::Backend&)> const& call, std::function<bool()> const& alive);
  /// As far as that is known without a call.
  [[nodiscard]] host::Trouble look() noexcept {
    std::unique_lock const lock(mutex_, std::try_to_lock);
    return lock ? host_->trouble() : host::Trouble::none;  // a call under way notices by itself
  }
  /// What this rank fails with: what the others fail with too, wherever one of them knows more than that it is stuck.
  /// Blocks up to about 7 s.
  [[nodiscard]] host::FailureFacts settle(Reason const& reason, CallReport const& mine) noexcept;
  void leave() noexcept {
    std::lock_guard const lock(mutex_);
    host_->leave();
  }

 private:
  std::mutex mutex_;  ///< of host_'s calls
  std::unique_ptr<host::Backend> host_;
  NcclConfig const& config_;
  std::vector<int> numbers_;
  std::vector<std::string> names_;
};

}  // namespace cxxrun::gpu
