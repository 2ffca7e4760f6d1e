// NcclQueue: one NCCL communicator with its stream: what is queued, how far it has come, and its end. Shell.
//
// NCCL allows one thread at a time, so one lock protects all calls of the plugin except those that any thread may make.
// No thread waits for peers or the device while holding it, except inside NCCL and in the driver: there a call may wait
// behind a kernel that a dead peer never ends. So one thread (guard()) needs neither this lock nor the driver; it
// checks the peers when no other thread does, and aborts NCCL from outside.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/gpu/choice.hpp"
#include "src/runtime/gpu/nccl_leftover.hpp"
#include "src/runtime/gpu/nccl_peers.hpp"

namespace cxxrun::gpu {

inline constexpr Millis kTick{1};        ///< between two checks of the peers
inline constexpr Millis kStopped{1000};  ///< no scheduler delays two checks by that much

/// Exits with code 75: earlier communicators were not ended within `deadline`.
[[noreturn]] void end_stuck(std::string const& here, Millis deadline);

class NcclQueue final : public host::DeviceQueue {
 public:
  NcclQueue(NcclConfig const& config, Peers& peers) : config_(config), peers_(peers), api_(*config.api) {}
  ~NcclQueue() override;
  NcclQueue(NcclQueue const&) = delete;
  NcclQueue& operator=(NcclQueue const&) = delete;

  /// Blocks until NCCL is connected. Throws Failure and PeerFailure, like all functions here.
  void connect(std::array<std::uint8_t, CXXRUN_CUDA_ID_BYTES> const& id, TimePoint deadline);
  /// Blocks until the memory is allocated and zeroed.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Waits for what is queued, then ends NCCL in order, which may take at most `abort_deadline`.
  void close() noexcept;

  /// All waits give up at once when asked (host::Backend::give_up_early).
  [[nodiscard]] host::EarlyGiveUp& early_give_up() { return *config_.early_give_up; }
  [[nodiscard]] bool alive() const { return state_.load() == State::running && !process_ends(); }
  /// Ends NCCL for that reason, unless it has ended already, and throws the failure it ended with.
  [[noreturn]] void fail(Reason const& reason);

  void report(std::function<void(bool)> busy) override { tell_busy_ = std::move(busy); }
  [[nodiscard]] bool is_device(void const* memory) override;
  [[nodiscard]] bool takes(comm::Call const& call) override {
    return comm::in_bytes(call, 1) > 0 && is_device(call.out);
  }
  [[nodiscard]] std::optional<std::string> refusal(comm::Call const& call) override;
  [[nodiscard]] std::uint64_t submit(comm::Call const& call) override;
  void after(Stream stream) override;
  void multiply(DType type, void* data, std::size_t count, double factor) override;
  void add_squares(DType type, void const* data, std::size_t count, double* sum) override;
  void copy(void* to, void const* from, std::size_t bytes) override;
  [[nodiscard]] std::uint64_t mark() override;
  [[nodiscard]] bool done(std::uint64_t point) noexcept override;
  void wait(std::uint64_t point) override;
  void wait_on(std::uint64_t point, Stream stream) override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class State : std::uint8_t { running, ending, ended };
  /// Maximum number of points in progress.
  static constexpr std::uint64_t kSlots = 256;
  /// State of one waiting thread.
  struct Wait {
    TimePoint began = Clock::now();
    TimePoint looked{};
    TimePoint left{};  ///< when a peer was seen to have left; epoch: none has
    int rounds = 0;
  };

  /// Throws in a forked child: there CUDA only returns errors, and a lock held by a parent's thread is never released.
  void require_own() const { host::require_own(pid_); }
  [[nodiscard]] bool is_captured(Stream stream);
  template <class Body>
  void queue(char const* what, Body const& body);
  template <class Body>
  void call(Lock& lock, char const* what, Body const& body);
  void await_connection(Lock& lock, TimePoint deadline);
  void await_slot(Lock& lock) {
    if (marked_ - reached_.load() >= kSlots) {
      wait_locked(lock, marked_ + 1 - kSlots);
    }
  }
  void set_busy(bool busy) {
    if (busy_ != busy && tell_busy_) {
      tell_busy_(busy);
    }
    busy_ = busy;
  }
  [[nodiscard]] std::uint64_t mark_locked(Lock& lock, CallReport const& what);
  void wait_locked(Lock& lock, std::uint64_t point);
  [[nodiscard]] std::int32_t advance(cxxrun_cuda_status& status);
  void advance_or_end(Lock& lock, TimePoint began);
  void look(Lock& lock, Wait& wait);
  [[nodiscard]] std::optional<Reason::Why> overdue(Clock::duration waited);
  static void pause(Wait& wait);
  static void rest(Lock& lock, Wait& wait) {
    lock.unlock();
    pause(wait);
    lock.lock();
  }
  [[noreturn]] void end(Lock& lock, Reason const& reason, TimePoint began);
  void give_up(Reason const& reason, CallReport const& mine) noexcept;
  void await_end() noexcept;
  void become_ended() noexcept;
  void require(Lock& lock, std::int32_t code, cxxrun_cuda_status& status, char const* what, TimePoint began);
  void end_if_lost(Reason const& reason) const noexcept;
  void carry_out_end(Reason const& reason, CallReport const& mine) noexcept;
  [[nodiscard]] CallReport oldest() const;
  [[nodiscard]] CallReport oldest_if_free();
  void await_device(Reason const& reason, std::string const& here) noexcept;
  [[nodiscard]] bool is_in_progress();
  void watch() noexcept;
  void guard() noexcept;

  pid_t const pid_ = ::getpid();
  NcclConfig const& config_;
  Peers& peers_;
  cxxrun_cuda_api const& api_;
  cxxrun_cuda_comm* comm_ = nullptr;
  Leftover::Owner leftover_;  ///< owns comm_ once it is ending
  std::array<std::pair<std::uintptr_t, std::size_t>, 64>
      arenas_{};  ///< begin and size; the plugin is asked about any further ones
  std::size_t arenas_used_ = 0;

  std::mutex mutex_;
  std::atomic<State> state_{
      State::running};  ///< the thread that sets `ending` carries the end out, with or without the lock
  std::mutex end_mutex_;
  std::condition_variable changed_;  ///< signalled when state_ becomes ended
  host::FailureFacts failed_;        ///< set before state_ becomes ended
  std::uint64_t base_ = 0;           ///< the plugin's number of the first point
  std::uint64_t marked_ = 0;         ///< the last point
  std::atomic<std::uint64_t> reached_{0};
  TimePoint progress_{};                ///< since when the oldest point in progress is the first in line
  std::atomic<TimePoint> looked_{};     ///< when a thread last checked the peers
  std::atomic<std::uint64_t> made_{0};  ///< number of calls
  std::array<CallReport, kSlots> under_way_{};
  std::function<void(bool)> tell_busy_;
  bool busy_ = false;
  int waiting_ = 0;  ///< threads that check the peers themselves
  bool closed_ = false;

  std::condition_variable wake_;  ///< wakes the watching thread
  bool asleep_ = false;
  bool stop_ = false;
  std::thread watcher_;
  std::condition_variable guard_wake_;  ///< wakes the guard
  bool guard_stop_ = false;             ///< protected by end_mutex_
  std::thread guard_;
};

}  // namespace cxxrun::gpu
