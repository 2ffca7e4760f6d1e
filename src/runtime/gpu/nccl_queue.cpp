#include "src/runtime/gpu/nccl_queue.hpp"

#include <algorithm>
#include <sched.h>

#include "src/base/os/quiet_thread.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/gpu/settings.hpp"

namespace cxxrun::gpu {
namespace {

constexpr int kYields = 100;
constexpr std::chrono::microseconds kShortest{20};
constexpr std::chrono::microseconds kLongest{200};
/// A rank that leaves after its last call: the others may be that much later in seeing theirs done.
constexpr Millis kLeaving{200};

cxxrun_cuda_call plugin_call(comm::Call const& call) {
  return {.kind = static_cast<std::uint8_t>(call.kind),
          .type = static_cast<std::uint8_t>(call.type),
          .op = static_cast<std::uint8_t>(call.op),
          .wire = static_cast<std::uint8_t>(call.wire),
          .root = call.root,
          .count = call.count,
          .scale = call.scale,
          .in = call.kind == comm::Kind::broadcast ? call.out : call.in,
          .out = call.out};
}

}  // namespace

NcclQueue::~NcclQueue() {
  close();
  {
    std::lock_guard const lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  {
    std::lock_guard const lock(end_mutex_);
    dismissed_ = true;
  }
  off_duty_.notify_one();
  for (auto* const thread : {&watcher_, &guard_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

/// Ends NCCL where `code` is an error of the plugin's.
void NcclQueue::require(Lock& lock, std::int32_t code, cxxrun_cuda_status& status, char const* what, TimePoint began) {
  if (code != CXXRUN_CUDA_OK && code != CXXRUN_CUDA_IN_PROGRESS) {
    status.code = code;
    end(lock, reason_of(status, what), began);
  }
}

/// One call of the plugin's. `what` is for messages.
template <class Body>
void NcclQueue::call(Lock& lock, char const* what, Body const& body) {
  if (!alive()) {
    end(lock, {}, Clock::now());
  }
  cxxrun_cuda_status status;
  status.code = status.detail = 0;
  status.text[0] = '\0';
  std::int32_t const code = body(status);
  require(lock, code, status, what, Clock::now());
}

void NcclQueue::await_connection(Lock& lock, TimePoint deadline) {
  Wait wait;
  progress_ = wait.began;
  for (;;) {
    cxxrun_cuda_status status{};
    std::int32_t const code = api_.poll(comm_, &status);
    if (code == CXXRUN_CUDA_OK) {
      return;
    }
    require(lock, code, status, "connecting the ranks", wait.began);
    if (Clock::now() >= deadline) {
      end(lock,
          {Reason::Why::error,
           cxxrun::fail(Errc::timeout,
                        "NCCL has not connected all ranks in time; NCCL_DEBUG=INFO says whom it waits for, and "
                        "NCCL_SOCKET_IFNAME chooses the interface"),
           {}},
          wait.began);
    }
    look(lock, wait);
    pause(wait);
  }
}

void NcclQueue::connect(std::array<std::uint8_t, CXXRUN_CUDA_ID_BYTES> const& id, TimePoint deadline) {
  heed_exit();
  if (!Leftover::await_others(Leftover::kMost, config_.abort_deadline)) {
    end_stuck(peers_.here(), config_.abort_deadline);
  }
  {
    Lock lock(mutex_);
    cxxrun_cuda_status status{};
    auto const settings = for_plugin(config_.settings);
    std::int32_t const code = api_.comm_begin(id.data(), config_.rank, peers_.world(), &settings, &comm_, &status);
    require(lock, code, status, ("NCCL does not start on " + config_.device).c_str(), Clock::now());
    await_connection(lock, deadline);
  }
  watcher_ = os::start_quiet_thread([this] { watch(); });
  if (peers_.world() > 1) {
    guard_ = os::start_quiet_thread([this] { guard(); });
  }
}

std::byte* NcclQueue::allocate(std::size_t bytes) {
  Lock lock(mutex_);
  void* memory = nullptr;
  call(lock, "an arena in device memory (ask for less if there is not enough)", [&](auto& status) {
    bool const alone = Leftover::await_others(0, Millis::zero());  // before, since they may come to their end meanwhile
    std::int32_t const code = api_.allocate(comm_, bytes, &memory, &status);
    if (alone || memory != nullptr || code == CXXRUN_CUDA_OK) {
      return code;
    }
    // What an earlier generation had is given back when its abort is over.
    if (!Leftover::await_others(0, config_.abort_deadline)) {
      end_stuck(peers_.here(), config_.abort_deadline);
    }
    return api_.allocate(comm_, bytes, &memory, &status);
  });
  wait_locked(lock, mark_locked(lock, {}));
  if (arenas_used_ < arenas_.size()) {
    arenas_[arenas_used_++] = {reinterpret_cast<std::uintptr_t>(memory), bytes};
  }
  return static_cast<std::byte*>(memory);
}

std::uint64_t NcclQueue::submit(comm::Call const& call) {
  host::count_call();
  host::fault_point(host::FaultPoint::enter);
  bool const in_place = call.kind == comm::Kind::broadcast || call.in == call.out;
  if (peers_.world() == 1 && in_place && call.scale == 1.0F) {
    return 0;  // every result is there already: nothing is launched
  }
  Lock lock(mutex_);
  await_slot(lock);
  set_busy(true);  // before NCCL, which may wait for peers in the call
  auto const asked = plugin_call(call);
  this->call(lock, "a call's stream", [&](auto& status) { return api_.after(comm_, call.stream.handle, &status); });
  this->call(lock, "a call", [&](auto& status) { return api_.enqueue(comm_, &asked, &status); });
  ++made_;
  host::fault_point(host::FaultPoint::meet);
  return mark_locked(lock, {made_, made_, comm::fields_of(call)});
}

template <class Body>
void NcclQueue::queue(char const* what, Body const& body) {
  require_own();
  Lock lock(mutex_);
  call(lock, what, body);
}

void NcclQueue::after(Stream stream) {
  queue("a stream", [&](auto& status) { return api_.after(comm_, stream.handle, &status); });
}

void NcclQueue::multiply(DType type, void* data, std::size_t count, double factor) {
  queue("scaling", [&](auto& status) {
    return api_.multiply(comm_, static_cast<std::uint8_t>(type), data, count, factor, &status);
  });
}

void NcclQueue::add_squares(DType type, void const* data, std::size_t count, double* sum) {
  queue("a norm", [&](auto& status) {
    return api_.add_squares(comm_, static_cast<std::uint8_t>(type), data, count, sum, &status);
  });
}

void NcclQueue::copy(void* to, void const* from, std::size_t bytes) {
  queue("a copy", [&](auto& status) { return api_.copy(comm_, to, from, bytes, &status); });
}

std::uint64_t NcclQueue::mark() {
  require_own();
  Lock lock(mutex_);
  await_slot(lock);
  return mark_locked(lock, {});
}

std::uint64_t NcclQueue::mark_locked(Lock& lock, CallReport const& what) {
  std::uint64_t point = 0;
  call(lock, "an event", [&](auto& status) { return api_.mark(comm_, &point, &status); });
  if (marked_ == 0) {
    base_ = point;
  }
  if (marked_ == reached_.load()) {
    progress_ = Clock::now();
  }
  marked_ = point - base_ + 1;
  under_way_[marked_ % kSlots] = what;
  if (asleep_) {
    asleep_ = false;
    wake_.notify_one();
  }
  return marked_;
}

bool NcclQueue::done(std::uint64_t point) noexcept {
  if (point <= reached_.load(std::memory_order_acquire) || state_.load() == State::ended || process_ends()) {
    return true;
  }
  Lock lock(mutex_, std::try_to_lock);
  if (!lock || !alive()) {
    return false;
  }
  cxxrun_cuda_status status;
  static_cast<void>(advance(status));  // an error is for who waits, or for the watching thread
  return point <= reached_.load();
}

void NcclQueue::wait(std::uint64_t point) {
  if (point <= reached_.load(std::memory_order_acquire)) {
    return;
  }
  require_own();
  Lock lock(mutex_);
  wait_locked(lock, point);
}

void NcclQueue::wait_on(std::uint64_t point, Stream stream) {
  if (point == 0 || (point <= reached_.load(std::memory_order_acquire) && !alive())) {
    return;
  }
  queue("a stream", [&](auto& status) { return api_.wait_on(comm_, base_ + point - 1, stream.handle, &status); });
}

/// Looks how far the device has come. What the plugin says of the first point that is not reached.
std::int32_t NcclQueue::advance(cxxrun_cuda_status& status) {
  for (std::uint64_t reached = reached_.load(); reached < marked_; ++reached) {
    status.text[0] = '\0';
    if (std::int32_t const code = api_.reached(comm_, base_ + reached, &status); code != CXXRUN_CUDA_OK) {
      return code;
    }
    if (!alive()) {  // it may be an abort that has ended the kernels, while this thread was in the driver
      return CXXRUN_CUDA_IN_PROGRESS;
    }
    progress_ = Clock::now();
    reached_.store(reached + 1, std::memory_order_release);
  }
  set_busy(false);
  return CXXRUN_CUDA_OK;
}

void NcclQueue::advance_or_end(Lock& lock, TimePoint began) {
  cxxrun_cuda_status status;
  require(lock, advance(status), status, "a call on device memory", began);
}

void NcclQueue::wait_locked(Lock& lock, std::uint64_t point) {
  Wait wait;
  // One thread more, for as long as it is here.
  std::unique_ptr<int, decltype([](int* number) { --*number; })> const counted(&++waiting_);
  for (;;) {
    if (alive()) {
      advance_or_end(lock, wait.began);
    }
    if (point <= reached_.load()) {
      return;
    }
    look(lock, wait);
    rest(lock, wait);
  }
}

/// At the peers first, since what comes after it may block, at NCCL and at the clock, every millisecond.
void NcclQueue::look(Lock& lock, Wait& wait) {
  if (!alive()) {
    end(lock, {}, wait.began);
  }
  auto const now = Clock::now();
  if (now - wait.looked < kTick) {
    return;
  }
  if (wait.looked != TimePoint{} && now - wait.looked > kStopped) {
    progress_ += now - wait.looked;  // this process was stopped, and the others perhaps with it
  }
  wait.looked = now;
  looked_.store(now);
  auto const trouble = peers_.look();
  if (trouble == host::Trouble::left && wait.left == TimePoint{}) {
    wait.left = now;
  }
  bool const left = trouble == host::Trouble::left && now - std::max(wait.left, progress_) > kLeaving;
  if (trouble == host::Trouble::failed || left) {
    end(lock, {Reason::Why::trouble, {}, {}}, wait.began);
  }
  cxxrun_cuda_status status{};
  std::int32_t const code = api_.poll(comm_, &status);
  require(lock, code, status, "a call on device memory", wait.began);
  if (auto const why = overdue(now - progress_)) {
    end(lock, {.why = *why}, wait.began);
  }
}

/// Why who has waited for so long waits no longer; nothing: he does.
std::optional<Reason::Why> NcclQueue::overdue(Clock::duration waited) {
  bool const asked = hurry().asked();  // once: it may be asked from one line to the next
  bool const at_once = asked && hurry().answer(waited, config_.op_timeout);
  if (asked && !at_once) {
    peers_.host().abort(host::stopped_by_launcher());
    return Reason::Why::trouble;
  }
  return at_once || waited >= config_.op_timeout ? std::optional(Reason::Why::late) : std::nullopt;
}

void NcclQueue::pause(Wait& wait) {
  if (++wait.rounds <= kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::min(kLongest, kShortest * (wait.rounds - kYields)));
  }
}

}  // namespace cxxrun::gpu
