// NcclQueue: one communicator of NCCL's with its stream: what is queued there, how far it has come, and its end. Shell.
//
// NCCL allows one thread at a time: one lock around every call of the plugin's, but for those that any thread may make.
// Nobody waits for peers or the device with it, except inside NCCL and in the driver: a call may wait there behind a
// kernel that a dead peer never ends. So one thread waits neither for this lock nor for the driver, looks at the peers
// when nobody else does, and gives NCCL up from outside.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unistd.h>

#include "src/runtime/cpu/common/device_queue.hpp"
#include "src/runtime/cpu/common/hurry.hpp"
#include "src/runtime/cpu/common/own_process.hpp"
#include "src/runtime/gpu/choice.hpp"
#include "src/runtime/gpu/nccl_leftover.hpp"
#include "src/runtime/gpu/nccl_peers.hpp"

namespace cxxrun::gpu {

inline constexpr Millis kTick{1};        ///< between two looks at the peers
inline constexpr Millis kStopped{1000};  ///< no scheduler takes that long between two looks

/// With exit code 75: what was left of earlier communicators was not ended within `deadline`.
[[noreturn]] void end_stuck(std::string const& here, Millis deadline);

class NcclQueue final : public host::DeviceQueue {
 public:
  NcclQueue(NcclConfig const& config, Peers& peers) : config_(config), peers_(peers), api_(*config.api) {}
  ~NcclQueue() override;
  NcclQueue(NcclQueue const&) = delete;
  NcclQueue& operator=(NcclQueue const&) = delete;

  /// Blocks until NCCL is connected. Throws Failure and PeerFailure, as everything here.
  void connect(std::array<std::uint8_t, CXXRUN_CUDA_ID_BYTES> const& id, TimePoint deadline);
  /// Blocks until the memory is there and zero.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Waits for what is queued, then ends NCCL in good order, for which it waits for `abort_deadline` at most.
  void close() noexcept;

  /// Whoever waits gives up at once (host::Backend::hurry).
  [[nodiscard]] host::Hurry& hurry() { return *config_.hurry; }
  [[nodiscard]] bool alive() const { return state_.load() == State::running && !process_ends(); }
  /// Ends NCCL for that reason, unless it has ended, and throws what it ended with.
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
  /// Points under way at most.
  static constexpr std::uint64_t kSlots = 256;
  /// Of one thread that waits.
  struct Wait {
    TimePoint began = Clock::now();
    TimePoint looked{};
    TimePoint left{};  ///< since when a peer is known to have left; epoch: none has
    int rounds = 0;
  };

  /// Throws in a forked child, for which CUDA has nothing but errors, and where no thread opens a lock that one held.
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
  [[nodiscard]] bool is_under_way();
  void watch() noexcept;
  void guard() noexcept;

  pid_t const pid_ = ::getpid();
  NcclConfig const& config_;
  Peers& peers_;
  cxxrun_cuda_api const& api_;
  cxxrun_cuda_comm* comm_ = nullptr;
  Leftover::Owner leftover_;                                         ///< which comm_ is from its end on
  std::array<std::pair<std::uintptr_t, std::size_t>, 64> arenas_{};  ///< begin and size; more are asked for by pointer
  std::size_t arenas_used_ = 0;

  std::mutex mutex_;
  std::atomic<State> state_{State::running};  ///< who makes it `ending` carries the end out, with or without the lock
  std::mutex end_mutex_;
  std::condition_variable changed_;  ///< state_ is ended
  host::FailureFacts failed_;        ///< by then
  std::uint64_t base_ = 0;           ///< the plugin's number of the first point
  std::uint64_t marked_ = 0;         ///< the last point
  std::atomic<std::uint64_t> reached_{0};
  TimePoint progress_{};                ///< since when the oldest point under way has had its turn
  std::atomic<TimePoint> looked_{};     ///< when somebody last saw to the peers
  std::atomic<std::uint64_t> made_{0};  ///< calls
  std::array<CallReport, kSlots> under_way_{};
  std::function<void(bool)> tell_busy_;
  bool busy_ = false;
  int waiting_ = 0;  ///< threads that look at the peers themselves
  bool closed_ = false;

  std::condition_variable wake_;  ///< of the watching thread
  bool asleep_ = false;
  bool stop_ = false;
  std::thread watcher_;
  std::condition_variable off_duty_;  ///< of the guard
  bool dismissed_ = false;            ///< with end_mutex_
  std::thread guard_;
};

}  // namespace cxxrun::gpu
