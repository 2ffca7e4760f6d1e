// The end of a communicator of NCCL's, in good order and in any other.
#include "src/base/os/quiet_thread.hpp"
#include "src/base/os/watchdog.hpp"
#include "src/runtime/gpu/nccl_gate.hpp"
#include "src/runtime/gpu/nccl_queue.hpp"

namespace cxxrun::gpu {
namespace {

std::string stuck(Millis deadline) {
  return "NCCL could not be given up within " + std::to_string(deadline.count()) + " ms: this process ends with code " +
         std::to_string(os::Watchdog::kTryAgain) + ", to be started anew";
}

/// What `make` makes. Where no thread can be started nobody above could catch it, and without an end of NCCL's the
/// peers would wait.
template <class Make>
auto or_end_process(std::string const& here, Make const& make) noexcept {
  try {
    return make();
  } catch (std::exception const& failure) {
    os::end_process(os::Watchdog::kTryAgain, here + ": NCCL cannot be given up, because no thread can be started (" +
                                                 failure.what() + "): this process ends with code " +
                                                 std::to_string(os::Watchdog::kTryAgain) + ", to be started anew\n");
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

/// For who must not wait for the lock.
CallReport NcclQueue::oldest_if_free() {
  Lock const lock(mutex_, std::try_to_lock);
  return lock ? oldest() : CallReport{.made = made_.load()};
}

/// The first to come ends it; all throw what it ended with.
void NcclQueue::end(Lock& lock, Reason const& reason, TimePoint began) {
  auto const mine = oldest();
  lock.unlock();
  give_up(reason, mine);
  lock.lock();  // nobody is told while another thread may still be inside the plugin with his buffers
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

/// A kernel's fault takes the device from this process for good: NCCL cannot be ended in order, nor begun anew. So the
/// process ends, and the others see a death that they survive. Alone, what is thrown is worth more.
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
    failed_ = peers_.settle(reason, mine);
    return;
  }
  if (reason.of_cuda) {  // which has just answered: else the question might wait for what the abort has to end
    end_if_lost(reason);
  }
  auto const here = peers_.here();
  leftover_ = or_end_process(here, [&] { return Leftover::begin(api_, comm_, Leftover::How::abort); });
  std::thread waiting =
      or_end_process(here, [&] { return os::start_quiet_thread([&] { await_device(reason, here); }); });
  failed_ = peers_.settle(reason, mine);
  waiting.join();
}

/// Until nothing of NCCL's runs on the device any more: only then may anybody touch the buffers, and the rest of the
/// abort is in nobody's way. The deadline holds while it is found out whose failure it is, too. Nothing in this process
/// can make a thread come back from the driver, and no other thread may use the device then.
void NcclQueue::await_device(Reason const& reason, std::string const& here) noexcept {
  auto const watchdog = or_end_process(
      here, [&] { return os::Watchdog(config_.abort_deadline, here + ": " + stuck(config_.abort_deadline)); });
  cxxrun_cuda_status status{};
  while (api_.drained(comm_, &status) == CXXRUN_CUDA_IN_PROGRESS) {
    std::this_thread::sleep_for(kTick);
  }
  end_if_lost(reason);  // not before: the driver may be blocked behind a kernel that the abort has to end
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
    if (peers_.look() == host::Trouble::failed) {  // with them NCCL cannot be ended in good order
      end(lock, {}, Clock::now());
    }
  } catch (...) {  // it has ended; who still calls is told so
  }
  if (auto was = State::running; !state_.compare_exchange_strong(was, State::ending)) {
    return await_end();
  }
  lock.unlock();
  leftover_ = or_end_process(peers_.here(), [&] { return Leftover::begin(api_, comm_, Leftover::How::finalize); });
  static_cast<void>(leftover_->await(config_.abort_deadline));  // a peer that hangs at its end may keep it for longer
  become_ended();
}

}  // namespace cxxrun::gpu
