// How long a call waits, and what ends the wait early: Patience, EarlyGiveUp, LocalPeers.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "src/base/core/time.hpp"

namespace cxxrun::host {

/// How long one call may wait. `began` is for PeerFailure::after.
struct Patience {
  TimePoint began;
  TimePoint until;
  bool may_give_up_early = true;  ///< it may be given up early (EarlyGiveUp)
  Millis grace{0};  ///< extra time for another node, where a rank of that node may know better who is late
};

/// Request to give up waits early, because others wait for this rank in the meantime. Any thread.
///
/// A wait that gives up early names the peer it waited for only after half of its time: a rank that came to the call
/// later than that was late itself, and perhaps the peer was not.
class EarlyGiveUp {
 public:
  /// Requests it. Each wait that is given up calls `answer` on its own thread. Only the first request counts.
  void request(std::function<void()> answer) noexcept {
    if (!begun_.exchange(true)) {
      answer_ = std::move(answer);
      requested_.store(true, std::memory_order_release);
    }
  }
  [[nodiscard]] bool requested() const noexcept { return requested_.load(std::memory_order_acquire); }
  /// For a wait that has seen the request after `waited` of its time `most`: calls the answer, and returns whether the
  /// wait may name a peer.
  [[nodiscard]] bool acknowledge(Clock::duration waited, Clock::duration most) const {
    answer_();
    return waited >= most / 2;
  }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> requested_{false};  // answer_ is set before
  std::function<void()> answer_;
};

/// The other processes of this node, as seen by code that waits for something else, such as a rail.
class LocalPeers {
 public:
  LocalPeers() = default;
  LocalPeers(LocalPeers const&) = delete;
  LocalPeers& operator=(LocalPeers const&) = delete;
  virtual ~LocalPeers() = default;
  /// Throws the node's PeerFailure or Failure if a local peer has died or has reported that the call failed. Cheap:
  /// code that waits calls it at least every millisecond.
  virtual void check(Patience const& patience) = 0;
  /// Shows the local peers that this process waits for `rank` of another node (-1: no longer). A local peer that gives
  /// up waiting for this process then names `rank`.
  virtual void held_up_by(int rank) = 0;
  /// Whether to name the late peer now, before `until`, because an early give-up was requested. Throws if the wait must
  /// be given up without naming anybody.
  [[nodiscard]] virtual bool gives_up_early(Patience const& /*patience*/) { return false; }
  /// How much longer than `until` to wait in this call: as long as this process was stopped (SIGSTOP, scontrol
  /// suspend), since the others may have been stopped with it. As of the last check().
  [[nodiscard]] virtual Clock::duration stopped() const { return {}; }
};

}  // namespace cxxrun::host
