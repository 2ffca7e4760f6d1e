// Engine: carries out a Communicator's calls in order, on the caller's thread or on one of its own. Shell.
//
// A blocking call runs on the thread that makes it once nothing is under way: no thread is woken for it. submit()
// hands to a thread that is started at its first use and sleeps between calls; it allocates nothing. Calls are
// numbered (tickets), and since they are done in order, one number says which are done.
//
// The first exception of the backend is kept: whatever was asked for after it, and every later call, throws it again.
//
// Of a backend with a device, calls on device memory are queued there by submit(), on the thread that calls it: their
// tickets are points of that queue. A call on host memory does not wait for them, nor they for it.
//
// In a forked child every call throws Failure: the peers take what it writes for its parent's.
//
// Threads: run(), submit() and allocate() by one thread at a time; done() and wait() by any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "cxxrun/failure.hpp"
#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/base/worker/futex.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/client/reason.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/device_queue.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

class Engine {
 public:
  explicit Engine(std::unique_ptr<host::Backend> backend, worker::Recorder recorder = {});
  ~Engine() { close(); }
  /// One that stays in memory, untouched, where its last owner goes in a forked child: the thread, the peers and the
  /// shared memory are the parent's.
  static std::shared_ptr<Engine> shared(std::unique_ptr<host::Backend> backend, worker::Recorder recorder = {});
  Engine(Engine const&) = delete;
  Engine& operator=(Engine const&) = delete;

  /// Returns when the call, and all before it, are done; throws what one of them failed with.
  void run(comm::Call const& call);
  /// The call's ticket. Blocks only while kSlots calls wait. Throws what an earlier call failed with.
  [[nodiscard]] std::uint64_t submit(comm::Call const& call);
  [[nodiscard]] std::byte* allocate(std::size_t bytes);

  [[nodiscard]] bool done(std::uint64_t ticket) const noexcept;
  void wait(std::uint64_t ticket);
  /// The same for at most so long; false: not done yet.
  [[nodiscard]] bool wait_for(std::uint64_t ticket, Millis most);
  /// `stream` goes on when the call is done; of a call on host memory this waits.
  void wait_on(std::uint64_t ticket, Stream stream);
  /// Null without one.
  [[nodiscard]] host::DeviceQueue* device() const { return device_; }

  /// Ends everything with `failure`, as if a call had failed with it; the peers hear of it by leave(). Not while calls
  /// run; throws what has ended it before.
  void refuse(Failure const& failure);
  /// Tells the peers that this rank makes no more calls. Not while calls run.
  void leave() noexcept;
  /// Waits for what has been submitted, then leaves the peers. Allocated memory stays until the Engine is gone.
  /// Nothing in a forked child.
  void close() noexcept;
  /// Ends what is under way and all that comes with `facts`, from any thread; returns at once.
  void abort(host::FailureFacts const& facts) noexcept { backend_->abort(facts); }
  /// Ends what waits, now and later (host::Backend::hurry), from any thread; returns at once.
  void hurry(std::function<void()> answer) noexcept { backend_->hurry(std::move(answer)); }
  /// The sentence of the first failure; empty: none yet.
  [[nodiscard]] std::string why() const;
  /// Whether that is a PeerFailure which names this rank.
  [[nodiscard]] bool blames(int rank) const;
  /// Throws what the next call will throw, as far as that is known without one.
  void face_trouble();
  [[nodiscard]] std::string describe() const { return backend_->describe(); }
  /// Throws Failure in a forked child.
  void require_own() const;

 private:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::uint64_t kOnDevice = std::uint64_t{1} << 63U;  ///< in a ticket: the rest is a point
  static constexpr std::uint64_t kNoMore = std::uint64_t{1} << 62U;    ///< in submitted_: no other will follow

  template <class Body>
  void run_here(Body const& body);
  void carry_out(comm::Call const& call);
  [[nodiscard]] std::uint64_t submit_to_device(comm::Call const& call);
  void work();
  [[nodiscard]] bool await_call(std::uint64_t next) const;
  void wait_until(std::uint64_t completed) const;
  void note_failure(std::uint64_t ticket) noexcept;                         // in a catch block
  void keep(std::uint64_t ticket, std::exception_ptr const& why) noexcept;  // not by two at a time
  void throw_if_failed(std::uint64_t ticket) const;
  [[nodiscard]] bool is_inherited() const noexcept;

  int pid_;
  std::unique_ptr<host::Backend> backend_;
  worker::Recorder recorder_;  // of whoever runs a call
  host::DeviceQueue* device_;
  std::atomic<std::uint64_t> newest_on_device_{0};  // a ticket; the call's number for the recorder is set before it
  std::atomic<std::uint64_t> noted_on_device_{0};
  std::array<comm::Call, kSlots> slots_{};
  std::uint64_t asked_ = 0;                        // tickets given; by whoever calls; the queue's calls only
  std::atomic<std::uint64_t> submitted_{0};        // the last one that the thread may take
  std::atomic<std::uint64_t> completed_{0};        // all up to this one are done or failed
  host::FutexWord finished_{0};                    // counts what completed_ does, for those that wait_for()
  std::atomic<int> timed_{0};                      // so many do
  std::atomic<std::uint64_t> failed_{UINT64_MAX};  // the first one that failed; reason_ is set before it
  std::optional<Reason> reason_;
  bool left_ = false;
  std::thread thread_;
};

}  // namespace cxxrun::client
