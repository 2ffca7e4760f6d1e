// The end of an NCCL communicator, orderly or by abort, and the threads that bring it about: watch() and guard().
#include <utility>

#include "src/base/os/thread.hpp"
#include "src/runtime/gpu/nccl_queue.hpp"

namespace cxxrun::gpu {

namespace {

std::string stuck(Millis deadline) {
  return "cannot abort NCCL within " + std::to_string(deadline.count()) + " ms: exiting with code " +
         std::to_string(os::Watchdog::kTryAgain) + ", to be restarted";
}

/// Returns what `make` makes. Its callers cannot handle the failure to start a thread, and if NCCL were not ended, the
/// peers would wait: so the process ends.
template <class Make>
auto or_end_process(std::string const& here, Make const& make) noexcept {
  try {
    return make();
  } catch (std::exception const& failure) {
    os::end_process(os::Watchdog::kTryAgain, here + ": cannot abort NCCL, because no thread can be started (" +
                                                 failure.what() + "): exiting with code " +
                                                 std::to_string(os::Watchdog::kTryAgain) + ", to be restarted\n");
  }
}

}  // namespace

void end_stuck(std::string const& here, Millis deadline) {
  os::end_process(os::Watchdog::kTryAgain, here + ": " + stuck(deadline) + "\n");
}

CallReport NcclQueue::oldest() const {
  CallReport told;
  for (std::uint64_t point = reached_.load() + 1; point <= marked_ && told.number == 0; ++point) {
    told = under_way_[point % kSlots];
  }
  told.made = made_.load();
  return told;
}

/// For callers that must not wait for the lock.
CallReport NcclQueue::oldest_if_free() {
  Lock const lock(mutex_, std::try_to_lock);
  return lock ? oldest() : CallReport{.made = made_.load()};
}

/// The first thread here ends the communicator; all throw the failure it ended with.
void NcclQueue::end(Lock& lock, Reason const& reason, TimePoint began) {
  auto const mine = oldest();
  lock.unlock();
  give_up(reason, mine);
  lock.lock();  // return only when no other thread can be inside the plugin with the caller's buffers
  host::throw_failure(failed_, config_.generation, began);
}

void NcclQueue::give_up(Reason const& reason, CallReport const& mine) noexcept {
  auto was = State::running;
  if (!state_.compare_exchange_strong(was, State::ending)) {
    return await_end();
  }
  shut_gate();
  carry_out_end(reason, mine);
  become_ended();
}

void NcclQueue::become_ended() noexcept {
  std::lock_guard const lock(end_mutex_);
  state_.store(State::ended);
  changed_.notify_all();
}

void NcclQueue::await_end() noexcept {
  std::unique_lock lock(end_mutex_);
  changed_.wait(lock, [this] { return state_.load() == State::ended; });
}

/// After a kernel's fault this process cannot use the device any more: NCCL can neither be ended in order nor be
/// started again. So the process ends, and the other ranks survive its death. In a world of one, throwing the failure
/// is more useful.
void NcclQueue::end_if_lost(Reason const& reason) const noexcept {
  cxxrun_cuda_status status{};
  if (peers_.world() == 1) {
    return;
  }
  if (std::int32_t const code = api_.usable(comm_, &status); code != CXXRUN_CUDA_OK) {
    status.code = code;
    auto const what = reason.why == Reason::Why::error ? reason.error : error_of(status, "GPU fault");
    os::end_process(kDeviceLost, peers_.here() + ": " + what.context + lost_device_text());
  }
}

void NcclQueue::carry_out_end(Reason const& reason, CallReport const& mine) noexcept {
  if (process_ends()) {
    failed_ = host::facts_of(cxxrun::fail(Errc::closed, peers_.here() + ": a call on device memory after exit()"));
    return;
  }
  if (comm_ == nullptr) {
    failed_ = peers_.agree_on_failure(reason, mine);
    return;
  }
  if (reason.of_cuda) {  // CUDA has just answered; otherwise the question might wait for what the abort has to end
    end_if_lost(reason);
  }
  auto const here = peers_.here();
  leftover_ = or_end_process(here, [&] { return Leftover::begin(api_, comm_, Leftover::How::abort); });
  std::thread waiting =
      or_end_process(here, [&] { return os::start_quiet_thread([&] { await_device(reason, here); }); });
  failed_ = peers_.agree_on_failure(reason, mine);
  waiting.join();
}

/// Waits until nothing of NCCL runs on the device: only then may the buffers be used, and the rest of the abort blocks
/// nothing. The deadline also covers the time in which the ranks find out whose failure it is. If it passes, the
/// process ends: a thread stuck in the driver cannot be freed, and no other thread can use the device then.
void NcclQueue::await_device(Reason const& reason, std::string const& here) noexcept {
  auto const watchdog = or_end_process(
      here, [&] { return os::Watchdog(config_.abort_deadline, here + ": " + stuck(config_.abort_deadline)); });
  cxxrun_cuda_status status{};
  while (api_.drained(comm_, &status) == CXXRUN_CUDA_IN_PROGRESS) {
    std::this_thread::sleep_for(kTick);
  }
  end_if_lost(reason);  // not earlier: the driver may be blocked behind a kernel that the abort has to end
}

void NcclQueue::fail(Reason const& reason) {
  auto const began = Clock::now();
  give_up(reason, oldest_if_free());
  Lock const lock(mutex_);  // as in end()
  host::throw_failure(failed_, config_.generation, began);
}

void NcclQueue::close() noexcept {
  if (process_ends()) {
    return;
  }
  Lock lock(mutex_);
  if (closed_ || comm_ == nullptr) {
    return;
  }
  closed_ = true;
  try {
    if (alive()) {
      wait_locked(lock, marked_);
    }
    if (peers_.look() == host::Trouble::failed) {  // then NCCL cannot be ended in order
      end(lock, {}, Clock::now());
    }
  } catch (...) {  // it has ended; later callers get the failure
  }
  if (auto was = State::running; !state_.compare_exchange_strong(was, State::ending)) {
    return await_end();
  }
  lock.unlock();
  leftover_ = or_end_process(peers_.here(), [&] { return Leftover::begin(api_, comm_, Leftover::How::finalize); });
  static_cast<void>(leftover_->await(config_.abort_deadline));  // a peer that hangs at its end may take longer
  become_ended();
}

// ---- the threads that look after a communicator

constexpr Millis kGuardInterval{100};  ///< between two rounds of the guard

/// For programs whose threads are blocked elsewhere: in cudaStreamSynchronize, or in another library.
void NcclQueue::watch() noexcept {
  constexpr int kLinger = 50;  // ticks; between two training steps sleeping is not worth it
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
        continue;  // the next caller throws it
      }
    } else {
      wait = {};
    }
    wake_.wait_for(lock, kTick, [this] { return stop_; });
  }
}

/// A thread that holds the lock for long is blocked in the driver.
bool NcclQueue::is_in_progress() {
  Lock const lock(mutex_, std::try_to_lock);
  return !lock || marked_ > reached_.load();
}

/// Checks the peers when no other thread has done so for a while. In that case all threads are blocked in the driver,
/// or wait for the lock of one that is; or nothing is in progress. In the latter case NCCL is aborted as well when a
/// peer has failed, because the node's other ranks cannot end theirs while this rank keeps its own. The guard cannot
/// see how far the device is, so a peer that has left does not count as failed here. op_timeout counts from the last
/// check by another thread.
void NcclQueue::guard() noexcept {
  std::unique_lock lock(end_mutex_);
  TimePoint since{};
  for (auto last = Clock::now(); !guard_wake_.wait_for(lock, kGuardInterval, [this] { return guard_stop_; });) {
    lock.unlock();
    auto const now = Clock::now();
    auto const gap = now - std::exchange(last, now);
    bool const unattended = alive() && now - looked_.load() > kGuardInterval;
    if (!unattended || !is_in_progress()) {
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
