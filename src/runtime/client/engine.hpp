// Engine: runs a Communicator's calls in order, on the caller's thread or on its own. Shell.
//
// A blocking call runs on the thread that makes it, once nothing is in progress: no thread has to be woken for it.
// submit() hands a call to the Engine's thread, which starts at the first use and sleeps between calls; it allocates
// nothing. Calls are numbered (tickets). Since they run in order, one number says which are done.
//
// The first exception of the backend is kept: all calls after the failed one throw it again.
//
// If the backend has a device, submit() queues calls on device memory there, on the thread that calls it; their tickets
// are points of the device's queue. Calls on host memory and calls on device memory do not wait for each other.
//
// In a forked child every call throws Failure, because the peers would take its data for the parent's.
//
// Threads: run(), submit() and allocate() by one thread at a time; done() and wait() by any thread.
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
#include <variant>

#include "cxxrun/failure.hpp"
#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/base/worker/futex.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

/// A failure that is kept so that it can be thrown again. Threads: any.
class KeptFailure {
 public:
  explicit KeptFailure(std::exception_ptr const& why) noexcept;

  /// Throws a copy, so that threads that throw at the same time share nothing.
  [[noreturn]] void raise() const;
  [[nodiscard]] std::string sentence() const;
  /// Whether it is a PeerFailure that names this rank.
  [[nodiscard]] bool blames(int rank) const noexcept;

 private:
  std::variant<std::exception_ptr, Failure, PeerFailure> why_;
};

class Engine {
 public:
  explicit Engine(std::unique_ptr<host::Backend> backend, worker::Recorder recorder = {});
  ~Engine() { close(); }
  /// If the last owner goes in a forked child, this Engine is not destroyed but stays in memory untouched: its thread,
  /// its peers and the shared memory belong to the parent.
  static std::shared_ptr<Engine> shared(std::unique_ptr<host::Backend> backend, worker::Recorder recorder = {});
  Engine(Engine const&) = delete;
  Engine& operator=(Engine const&) = delete;

  /// Returns when the call and all earlier ones are done; throws the failure of the first that failed.
  void run(comm::Call const& call);
  /// Returns the call's ticket. Blocks only while kSlots calls wait. Throws the failure of an earlier call.
  [[nodiscard]] std::uint64_t submit(comm::Call const& call);
  [[nodiscard]] std::byte* allocate(std::size_t bytes);

  [[nodiscard]] bool done(std::uint64_t ticket) const noexcept;
  void wait(std::uint64_t ticket);
  /// Waits for at most `most`; false: not done yet.
  [[nodiscard]] bool wait_for(std::uint64_t ticket, Millis most);
  /// Makes `stream` wait for the call; a call on host memory blocks this thread instead.
  void wait_on(std::uint64_t ticket, Stream stream);
  /// Null if there is no device.
  [[nodiscard]] host::DeviceQueue* device() const { return device_; }

  /// Ends the Engine with `failure`, as if a call had failed with it; leave() tells the peers. Not while calls run. If
  /// it had failed before, throws that failure.
  void refuse(Failure const& failure);
  /// Tells the peers that this rank makes no more calls. Not while calls run.
  void leave() noexcept;
  /// Waits for submitted calls, then leaves the peers. Allocated memory stays until the Engine is destroyed. Does
  /// nothing in a forked child.
  void close() noexcept;
  /// Makes the call in progress and all later ones throw `facts`. From any thread; returns at once.
  void abort(host::FailureFacts const& facts) noexcept { backend_->abort(facts); }
  /// Makes waits give up, now and later (host::Backend::give_up_early). From any thread; returns at once.
  void give_up_early(std::function<void()> answer) noexcept { backend_->give_up_early(std::move(answer)); }
  /// The message of the first failure; empty if there is none.
  [[nodiscard]] std::string why() const;
  /// Whether the first failure is a PeerFailure that names this rank.
  [[nodiscard]] bool blames(int rank) const;
  /// Throws what the next call would throw, if that is known without a call.
  void throw_trouble();
  [[nodiscard]] std::string describe() const { return backend_->describe(); }
  /// Throws Failure in a forked child.
  void require_own() const;

 private:
  static constexpr std::size_t kSlots = 256;
  static constexpr std::uint64_t kOnDevice = std::uint64_t{1}
                                             << 63U;  ///< bit of a ticket: the rest is a point of the device's queue
  static constexpr std::uint64_t kNoMore = std::uint64_t{1} << 62U;  ///< bit of submitted_: no more calls will follow

  template <class Body>
  void run_here(Body const& body);
  void carry_out(comm::Call const& call);
  [[nodiscard]] std::uint64_t submit_to_device(comm::Call const& call);
  void work();
  [[nodiscard]] bool await_call(std::uint64_t next) const;
  void wait_until(std::uint64_t completed) const;
  void note_failure(std::uint64_t ticket) noexcept;                         // call it in a catch block
  void keep(std::uint64_t ticket, std::exception_ptr const& why) noexcept;  // not by two threads at a time
  void throw_if_failed(std::uint64_t ticket) const;
  [[nodiscard]] bool is_inherited() const noexcept;

  int pid_;
  std::unique_ptr<host::Backend> backend_;
  worker::Recorder recorder_;  // used by the thread that runs a call
  host::DeviceQueue* device_;
  std::atomic<std::uint64_t> newest_on_device_{
      0};  // a ticket; noted_on_device_, its number for the recorder, is set before it
  std::atomic<std::uint64_t> noted_on_device_{0};
  std::array<comm::Call, kSlots> slots_{};
  std::uint64_t asked_ = 0;                        // last ticket of the queue; used by the calling thread only
  std::atomic<std::uint64_t> submitted_{0};        // the last call that the thread may take
  std::atomic<std::uint64_t> completed_{0};        // all calls up to this one are done or failed
  worker::FutexWord finished_{0};                  // changes with completed_; futex for wait_for()
  std::atomic<int> timed_{0};                      // number of threads in wait_for()
  std::atomic<std::uint64_t> failed_{UINT64_MAX};  // the first call that failed; reason_ is set before it
  std::optional<KeptFailure> reason_;
  bool left_ = false;
  std::thread thread_;
};

}  // namespace cxxrun::client
