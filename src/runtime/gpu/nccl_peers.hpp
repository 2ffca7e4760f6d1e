// The NCCL backend: collectives on device memory, through the plugin's table; and Peers: the host backend beside NCCL,
// and its knowledge about whose failure something is. Shell; docs/design/nccl_backend.md.
//
// Threads of Peers: any. look() does not wait for a call of another thread; agree_on_failure() waits for it for at most
// 2 s.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/waiting.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/cuda/plugin_api.h"
#include "src/runtime/gpu/choice.hpp"

namespace cxxrun::gpu {

struct NcclConfig {
  cxxrun_cuda_api const* api = nullptr;  ///< the device is open
  std::string device;                    ///< "NVIDIA H200 (GPU-…)", for messages
  int nccl = 0;
  int rank = 0;
  std::vector<std::string> hosts;  ///< by rank
  std::vector<int> names;          ///< by rank: its number in messages
  std::uint64_t generation = 0;
  Millis op_timeout{};
  Millis abort_deadline{};
  NcclSettings settings{};
  std::shared_ptr<host::EarlyGiveUp> early_give_up =
      std::make_shared<host::EarlyGiveUp>();  ///< covers all waits, also for the connection
};

/// Collective. Blocks until NCCL is connected, at most until `deadline`. Throws Failure and PeerFailure.
[[nodiscard]] std::unique_ptr<host::Backend> make_nccl_backend(NcclConfig config, std::unique_ptr<host::Backend> host,
                                                               TimePoint deadline);

/// Why an NCCL communicator is aborted.
struct Reason {
  enum class Why : std::uint8_t {
    trouble,  ///< the host backend knows of a failed peer
    error,    ///< CUDA or NCCL reported `error`
    late,     ///< nothing happened for op_timeout
    told,     ///< the host backend has thrown `facts`
  };
  Why why = Why::trouble;
  Error error{};
  host::FailureFacts facts{};
  bool of_cuda = false;  ///< the error is CUDA's, not NCCL's
};
/// The Reason for a failed call of the plugin.
[[nodiscard]] inline Reason reason_of(cxxrun_cuda_status const& status, std::string const& what) {
  return {.why = Reason::Why::error, .error = error_of(status, what), .of_cuda = status.code == CXXRUN_CUDA_CUDA};
}

/// What ranks tell each other when a device call did not end in time (docs/design/nccl_backend.md). Sent between
/// processes as raw bytes.
struct CallReport {
  std::uint64_t number = 0;  ///< number of the oldest call in progress, from 1; 0: none
  std::uint64_t made = 0;    ///< calls made by this rank
  comm::CallFields call{};   ///< the oldest call in progress
};

/// The sentence of the Failure that all ranks throw. By rank: `numbers` in messages; `names`: "rank 2 on node1".
[[nodiscard]] std::string verdict(std::span<CallReport const> ranks, std::span<int const> numbers,
                                  std::vector<std::string> const& names, std::string const& patience);

class Peers {
 public:
  /// `config` must outlive this object.
  Peers(std::unique_ptr<host::Backend> host, NcclConfig const& config);

  [[nodiscard]] int world() const { return static_cast<int>(names_.size()); }
  [[nodiscard]] std::string const& here() const { return names_[static_cast<std::size_t>(config_.rank)]; }
  /// The number of a rank in messages.
  [[nodiscard]] int number(std::size_t rank) const { return numbers_[rank]; }
  [[nodiscard]] host::Backend& host() { return *host_; }

  /// Makes a call on host memory. When its turn has come and `alive` returns false, does nothing and returns false.
  [[nodiscard]] bool run(std::function<void(host::Backend&)> const& call, std::function<bool()> const& alive);
  /// What is known of the peers without a call.
  [[nodiscard]] host::Trouble look() noexcept {
    std::unique_lock const lock(mutex_, std::try_to_lock);
    return lock ? host_->trouble() : host::Trouble::none;  // a call in progress notices by itself
  }
  /// The failure of this rank. All ranks fail with the same, unless one of them knows more than that a call is stuck.
  /// Blocks up to about 7 s.
  [[nodiscard]] host::FailureFacts agree_on_failure(Reason const& reason, CallReport const& mine) noexcept;
  void leave() noexcept {
    std::lock_guard const lock(mutex_);
    host_->leave();
  }

 private:
  std::mutex mutex_;  ///< serializes calls of host_
  std::unique_ptr<host::Backend> host_;
  NcclConfig const& config_;
  std::vector<int> numbers_;
  std::vector<std::string> names_;
};

}  // namespace cxxrun::gpu
