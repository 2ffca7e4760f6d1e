#include "src/runtime/client/engine.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>
#include <vector>

#include "src/base/os/thread.hpp"

namespace cxxrun::client {

KeptFailure::KeptFailure(std::exception_ptr const& why) noexcept : why_(why) {
  try {
    std::rethrow_exception(why);
  } catch (PeerFailure const& failure) {
    why_ = failure;
  } catch (Failure const& failure) {
    why_ = failure;
  } catch (...) {  // NOLINT(bugprone-empty-catch): kept as it is
  }
}

void KeptFailure::raise() const {
  if (auto const* const peer = std::get_if<PeerFailure>(&why_)) {
    throw PeerFailure(*peer);
  }
  if (auto const* const failure = std::get_if<Failure>(&why_)) {
    throw Failure(*failure);
  }
  std::rethrow_exception(std::get<std::exception_ptr>(why_));
}

std::string KeptFailure::sentence() const {
  try {
    raise();
  } catch (std::exception const& failure) {
    return failure.what();
  } catch (...) {
    return "a failure of an unknown type";
  }
}

bool KeptFailure::blames(int rank) const noexcept {
  auto const* const peer = std::get_if<PeerFailure>(&why_);
  return peer != nullptr && peer->rank() == rank;
}

/// A device does not signal the end of a call, so poll at these intervals. The first polls are shorter, because a short
/// wait is often for something that the device needs next.
constexpr Clock::duration kShortLook = std::chrono::microseconds(20);
constexpr Clock::duration kLongLook = std::chrono::microseconds(200);

Engine::Engine(std::unique_ptr<host::Backend> backend, worker::Recorder recorder)
    : pid_(::getpid()), backend_(std::move(backend)), recorder_(recorder), device_(backend_->device()) {
  // A device call counts as waiting whatever the process's threads do: a stream, or a thread that polls done(), may
  // wait.
  if (device_ != nullptr) {
    device_->report([recorder](bool busy) { busy ? recorder.waits() : recorder.goes_on(); });
  }
}

std::shared_ptr<Engine> Engine::shared(std::unique_ptr<host::Backend> backend, worker::Recorder recorder) {
  return {new Engine(std::move(backend), recorder), [](Engine* engine) {
            std::unique_ptr<Engine> owner(engine);
            if (engine->is_inherited()) {
              // Even the destructor of a member may block, waiting for a thread that exists only in the parent.
              static auto* const kept = new std::vector<std::unique_ptr<Engine>>;  // NOLINT: never destroyed
              kept->push_back(std::move(owner));
            }
          }};
}

bool Engine::is_inherited() const noexcept {
  return ::getpid() != pid_;
}

void Engine::require_own() const {
  host::require_own(pid_);
}

void Engine::carry_out(comm::Call const& call) {
  recorder_.entered(call);
  recorder_.waits();
  backend_->run(call);
  recorder_.goes_on();
  recorder_.done();
}

// Uses no ticket: the thread has finished all its work and sleeps, or is about to.
template <class Body>
void Engine::run_here(Body const& body) {
  require_own();
  wait(asked_);
  throw_if_failed(asked_ + 1);
  try {
    body();
  } catch (...) {
    note_failure(asked_ + 1);
  }
  throw_if_failed(asked_ + 1);
}

void Engine::run(comm::Call const& call) {
  run_here([&] { carry_out(call); });
}

void Engine::throw_trouble() {
  if (backend_->trouble() == host::Trouble::failed) {
    run_here([&] { backend_->run_within({.kind = comm::Kind::barrier}, Millis(1)); });
  }
}

std::byte* Engine::allocate(std::size_t bytes) {
  std::byte* memory = nullptr;
  run_here([&] {
    recorder_.entered({.kind = comm::Kind::allocate, .count = bytes});
    memory = backend_->allocate(bytes);
    recorder_.done();
  });
  return memory;
}

std::uint64_t Engine::submit(comm::Call const& call) {
  require_own();
  throw_if_failed(asked_ + 1);
  if (device_ != nullptr && device_->takes(call)) {
    return submit_to_device(call);
  }
  if (asked_ >= kSlots) {
    wait_until(asked_ + 1 - kSlots);
  }
  if (!thread_.joinable()) {
    thread_ = os::start_quiet_thread([this] { work(); });
  }
  std::uint64_t const ticket = ++asked_;
  slots_[ticket % kSlots] = call;
  submitted_.store(ticket);
  submitted_.notify_one();
  return ticket;
}

std::uint64_t Engine::submit_to_device(comm::Call const& call) {
  try {
    recorder_.entered(call);
    std::uint64_t const ticket = kOnDevice | device_->submit(call);
    noted_on_device_.store(recorder_.sequence(), std::memory_order_relaxed);
    newest_on_device_.store(ticket, std::memory_order_release);
    return ticket;
  } catch (...) {
    wait_until(asked_);
    note_failure(asked_ + 1);
  }
  throw_if_failed(asked_ + 1);
  return 0;
}

bool Engine::done(std::uint64_t ticket) const noexcept {
  if (is_inherited()) {
    return true;  // in a child nothing ever changes; wait() throws the reason
  }
  if ((ticket & kOnDevice) != 0) {
    return device_->done(ticket & ~kOnDevice);
  }
  return completed_.load(std::memory_order_acquire) >= ticket || failed_.load(std::memory_order_acquire) <= ticket;
}

void Engine::wait(std::uint64_t ticket) {
  require_own();
  if ((ticket & kOnDevice) != 0) {
    try {
      device_->wait(ticket & ~kOnDevice);
    } catch (PeerFailure const& failure) {
      recorder_.lost(failure);
      throw;
    }
    // A thread that only makes a stream wait stays inside the call, for the page, until it waits or calls again.
    if (newest_on_device_.load(std::memory_order_acquire) == ticket) {
      recorder_.done(noted_on_device_.load(std::memory_order_relaxed));
    }
    return;
  }
  wait_until(ticket);
  throw_if_failed(ticket);
}

bool Engine::wait_for(std::uint64_t ticket, Millis most) {
  require_own();
  TimePoint const began = Clock::now();
  TimePoint const until = began + most;
  bool const rings = (ticket & kOnDevice) == 0;
  timed_.fetch_add(1);
  for (;;) {
    auto const seen = finished_.load();
    auto const now = Clock::now();
    auto const left = until - now;
    if (done(ticket) || left <= Clock::duration::zero()) {
      break;
    }
    auto const look = std::clamp((now - began) / 16, kShortLook, kLongLook);
    worker::futex_wait(finished_, seen, rings ? left : std::min(left, look));
  }
  timed_.fetch_sub(1);
  if (!done(ticket)) {
    return false;
  }
  wait(ticket);
  return true;
}

void Engine::wait_on(std::uint64_t ticket, Stream stream) {
  require_own();
  if ((ticket & kOnDevice) != 0) {
    return device_->wait_on(ticket & ~kOnDevice, stream);
  }
  wait(ticket);
}

void Engine::wait_until(std::uint64_t completed) const {
  for (auto seen = completed_.load(); seen < completed; seen = completed_.load()) {
    completed_.wait(seen);
  }
}

/// The Engine's thread. After a failure it completes the remaining calls without running them.
void Engine::work() {
  for (std::uint64_t next = 1; await_call(next); ++next) {
    if (failed_.load(std::memory_order_relaxed) > next) {
      try {
        carry_out(slots_[next % kSlots]);
      } catch (...) {
        note_failure(next);
      }
    }
    completed_.store(next);
    completed_.notify_all();
    finished_.fetch_add(1);
    if (timed_.load() > 0) {
      worker::futex_wake_all(finished_);
    }
  }
}

/// Sleeps until call `next` exists; false: there will be no more calls.
bool Engine::await_call(std::uint64_t next) const {
  auto last = submitted_.load();
  for (; last < next; last = submitted_.load()) {
    submitted_.wait(last);
  }
  return (last & ~kNoMore) >= next;
}

void Engine::note_failure(std::uint64_t ticket) noexcept {
  auto const why = std::current_exception();
  try {
    throw;
  } catch (PeerFailure const& failure) {
    recorder_.lost(failure);
  } catch (...) {  // NOLINT(bugprone-empty-catch): not a failure of a peer
  }
  keep(ticket, why);
}

void Engine::keep(std::uint64_t ticket, std::exception_ptr const& why) noexcept {
  if (failed_.load(std::memory_order_relaxed) == UINT64_MAX) {  // a call in the background may have failed first
    reason_.emplace(why);
    failed_.store(ticket, std::memory_order_release);
  }
}

void Engine::throw_if_failed(std::uint64_t ticket) const {
  if (failed_.load(std::memory_order_acquire) <= ticket) {
    reason_->raise();
  }
}

std::string Engine::why() const {
  return failed_.load(std::memory_order_acquire) == UINT64_MAX ? "" : reason_->sentence();
}

bool Engine::blames(int rank) const {
  return failed_.load(std::memory_order_acquire) != UINT64_MAX && reason_->blames(rank);
}

void Engine::refuse(Failure const& failure) {
  require_own();
  wait(asked_);
  throw_if_failed(asked_ + 1);
  keep(asked_ + 1, std::make_exception_ptr(failure));
}

void Engine::close() noexcept {
  if (is_inherited()) {
    return;
  }
  if (thread_.joinable()) {
    submitted_.store(asked_ | kNoMore);
    submitted_.notify_one();
    thread_.join();
  }
  leave();
}

void Engine::leave() noexcept {
  if (!std::exchange(left_, true)) {
    backend_->leave();
  }
}

}  // namespace cxxrun::client
