#include "src/runtime/gpu/nccl_queue.hpp"

#include <algorithm>
#include <sched.h>

#include "src/base/os/thread.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"

namespace cxxrun::gpu {

namespace {

constexpr int kYields = 100;
constexpr std::chrono::microseconds kShortest{20};
constexpr std::chrono::microseconds kLongest{200};
/// When a rank leaves after its last call, the others may see their call done this much later.
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
    guard_stop_ = true;
  }
  guard_wake_.notify_one();
  for (auto* const thread : {&watcher_, &guard_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

/// Ends NCCL if `code` is an error.
void NcclQueue::require(Lock& lock, std::int32_t code, cxxrun_cuda_status& status, char const* what, TimePoint began) {
  if (code != CXXRUN_CUDA_OK && code != CXXRUN_CUDA_IN_PROGRESS) {
    status.code = code;
    end(lock, reason_of(status, what), began);
  }
}

/// Makes one call of the plugin. `what` is for messages.
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

/// Polls until NCCL is connected. Ends it when `deadline` has passed.
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
  register_exit_handler();
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
    bool const alone = Leftover::await_others(0, Millis::zero());  // ask first, since they may end in the meantime
    std::int32_t const code = api_.allocate(comm_, bytes, &memory, &status);
    if (alone || memory != nullptr || code == CXXRUN_CUDA_OK) {
      return code;
    }
    // The memory of an earlier generation is freed when its abort is over.
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
    return 0;  // all results are there already: nothing to launch
  }
  Lock lock(mutex_);
  await_slot(lock);
  set_busy(true);  // before calling NCCL, which may wait for peers
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
  static_cast<void>(advance(status));  // an error is reported by the thread that waits, or by the watching thread
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

/// Checks how far the device has come. Returns the plugin's code for the first point that is not reached.
std::int32_t NcclQueue::advance(cxxrun_cuda_status& status) {
  for (std::uint64_t reached = reached_.load(); reached < marked_; ++reached) {
    status.text[0] = '\0';
    if (std::int32_t const code = api_.reached(comm_, base_ + reached, &status); code != CXXRUN_CUDA_OK) {
      return code;
    }
    if (!alive()) {  // the kernels may have been ended by an abort while this thread was in the driver
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
  // Counts this thread as waiting while it is in here.
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

/// Checks the peers, NCCL and the deadline, once per millisecond. The peers first, because the other checks may block.
void NcclQueue::look(Lock& lock, Wait& wait) {
  if (!alive()) {
    end(lock, {}, wait.began);
  }
  auto const now = Clock::now();
  if (now - wait.looked < kTick) {
    return;
  }
  if (wait.looked != TimePoint{} && now - wait.looked > kStopped) {
    progress_ += now - wait.looked;  // this process was stopped, and the others perhaps too
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

/// The reason to stop waiting after `waited`, or nothing.
std::optional<Reason::Why> NcclQueue::overdue(Clock::duration waited) {
  bool const asked = early_give_up().requested();  // read once: it may change from one line to the next
  bool const at_once = asked && early_give_up().acknowledge(waited, config_.op_timeout);
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

// ---- what a call may not ask for, and whether buffers are device memory

bool NcclQueue::is_device(void const* memory) {
  auto const holds = [at = reinterpret_cast<std::uintptr_t>(memory)](auto const& a) { return at - a.first < a.second; };
  if (std::any_of(arenas_.data(), arenas_.data() + arenas_used_, holds)) {
    return true;
  }
  require_own();
  cxxrun_cuda_status status{};
  std::int32_t const kind = memory == nullptr ? 0 : api_.is_device_memory(memory, &status);
  if (kind < 0) {
    fail(reason_of(status, "asking where a buffer lies"));
  }
  return kind != 0;
}

bool NcclQueue::is_captured(Stream stream) {
  require_own();
  cxxrun_cuda_status status{};
  std::int32_t const answer = api_.is_captured(stream.handle, &status);
  if (answer < 0) {
    fail(reason_of(status, "asking whether a stream is captured"));
  }
  return answer != 0;
}

std::optional<std::string> NcclQueue::refusal(comm::Call const& call) {
  if (comm::in_bytes(call, 1) == 0) {
    return std::nullopt;
  }
  bool const out = is_device(call.out);
  if ((out || call.stream.handle != nullptr) && is_captured(call.stream)) {
    return comm::describe(call) +
           ": its stream is being captured into a CUDA graph, which collectives do not support: end the capture first";
  }
  if (call.kind != comm::Kind::broadcast && call.in != call.out && is_device(call.in) != out) {
    return comm::describe(call) + ": one buffer is device memory and the other the host's; give it two of one kind";
  }
  if (out && comm::reduces(call.kind) && call.op != ReduceOp::sum && comm::is_floating(call.type)) {
    return comm::describe(call) + " of device memory: NCCL loses NaNs in it; copy the values to host memory";
  }
  return std::nullopt;
}

}  // namespace cxxrun::gpu
