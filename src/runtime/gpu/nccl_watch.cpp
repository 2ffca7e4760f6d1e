// The threads that look after a communicator of NCCL's: one for who is blocked elsewhere, one for when that one is too.
#include <utility>

#include "src/runtime/gpu/nccl_queue.hpp"

namespace cxxrun::gpu {

constexpr Millis kPatrol{100};  ///< between two rounds of the guard

/// For who is blocked elsewhere: in cudaStreamSynchronize, or in another library.
void NcclQueue::watch() noexcept {
  constexpr int kLinger = 50;  // ticks: between two steps it is not worth going to sleep
  Lock lock(mutex_);
  int idle = 0;
  Wait wait;
  while (!stop_) {
    bool const under_way = alive() && marked_ > reached_.load();
    idle = under_way ? 0 : idle + 1;
    if (idle > kLinger) {
      asleep_ = true;
      wake_.wait(lock, [this] { return stop_ || !asleep_; });
      wait = {};
      idle = 0;
      continue;
    }
    if (under_way && waiting_ == 0) {
      try {
        advance_or_end(lock, wait.began);
        if (marked_ > reached_.load()) {
          look(lock, wait);
        }
      } catch (...) {
        continue;  // who calls next throws it
      }
    } else {
      wait = {};
    }
    wake_.wait_for(lock, kTick, [this] { return stop_; });
  }
}

/// Who has the lock for long is blocked in the driver.
bool NcclQueue::is_under_way() {
  Lock const lock(mutex_, std::try_to_lock);
  return !lock || marked_ > reached_.load();
}

/// Sees to the peers when nobody else has for a while. Then all are blocked in the driver, or wait for the lock of one
/// that is; or nothing is under way, and NCCL is given up all the same when a peer has failed: as long as this rank
/// holds on to it, that of the node's other ranks cannot end. Cannot see how far the device is, so that a peer that has
/// left is nobody's failure yet. `op_timeout` counts from when nobody looked any more.
void NcclQueue::guard() noexcept {
  std::unique_lock lock(end_mutex_);
  TimePoint since{};
  for (auto last = Clock::now(); !off_duty_.wait_for(lock, kPatrol, [this] { return dismissed_; });) {
    lock.unlock();
    auto const now = Clock::now();
    auto const gap = now - std::exchange(last, now);
    bool const unattended = alive() && now - looked_.load() > kPatrol;
    if (!unattended || !is_under_way()) {
      since = {};
    } else {
      since = since == TimePoint{} ? now : since + (gap > kStopped ? gap : Clock::duration{});
    }
    if (unattended && peers_.look() == host::Trouble::failed) {
      give_up({.why = Reason::Why::trouble}, oldest_if_free());
    } else if (since != TimePoint{}) {
      if (auto const why = overdue(now - since)) {
        give_up({.why = *why}, oldest_if_free());
      }
    }
    lock.lock();
  }
}

}  // namespace cxxrun::gpu
