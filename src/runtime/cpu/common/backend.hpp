// Backend and DeviceQueue: the interfaces for running calls. The host backend in this folder implements Backend, the
// GPU backend implements both.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cxxrun/stream.hpp"
#include "src/base/core/call.hpp"

namespace cxxrun::host {

struct FailureFacts;

/// What is known of the peers without a call.
enum class Trouble : std::uint8_t {
  none,
  left,    ///< one has left, perhaps legitimately
  failed,  ///< one died, or a call failed somewhere: the next call throws it
};

/// DeviceQueue: calls on device memory, which are queued on a device and not waited for. Provided by a Backend with a
/// device; calls on host memory go to its run().
///
/// Everything is queued in call order. A point is a place in that queue, and is reached when everything before it is
/// done. Points are increasing numbers.
///
/// Threads: submit() as Backend::run(); the rest from any thread. Errors: PeerFailure and Failure, thrown by the call
/// that finds them and by all later ones. done() and wait() never throw for a point that was reached before the
/// failure.
class DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(DeviceQueue const&) = delete;
  DeviceQueue& operator=(DeviceQueue const&) = delete;
  virtual ~DeviceQueue() = default;

  /// Call it before the first call. `busy` is called from any thread: busy(true) when a call begins and none is in
  /// progress, busy(false) when all are done, but not if one has failed.
  virtual void report(std::function<void(bool)> busy) = 0;

  /// Throws, like the functions below, if it cannot be determined because the device has failed.
  [[nodiscard]] virtual bool is_device(void const* memory) = 0;
  /// Whether the call's buffers are device memory.
  [[nodiscard]] virtual bool takes(comm::Call const& call) = 0;
  /// Why this call is not possible on a device, in addition to comm::refusal(): buffers of two kinds, min and max of
  /// floating point types. The message, or nothing.
  [[nodiscard]] virtual std::optional<std::string> refusal(comm::Call const& call) = 0;

  /// Queues the call behind the work that call.stream holds now. Returns the point at which the call is done. Blocks
  /// only while the device is hundreds of calls behind.
  [[nodiscard]] virtual std::uint64_t submit(comm::Call const& call) = 0;
  /// Later operations run after the work that `stream` holds now.
  virtual void after(Stream stream) = 0;
  /// data[i] *= factor; a factor of 0 gives zeros, whatever the data.
  virtual void multiply(DType type, void* data, std::size_t count, double factor) = 0;
  /// *sum, on the device, += Σ data[i]².
  virtual void add_squares(DType type, void const* data, std::size_t count, double* sum) = 0;
  /// Copies between host and device or within the device. Host memory must stay valid until a later mark() is reached.
  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;
  [[nodiscard]] virtual std::uint64_t mark() = 0;

  [[nodiscard]] virtual bool done(std::uint64_t point) noexcept = 0;  ///< reached, or failed
  /// Blocks the host until the point is reached.
  virtual void wait(std::uint64_t point) = 0;
  /// Makes `stream` wait for the point; the host does not wait.
  virtual void wait_on(std::uint64_t point, Stream stream) = 0;
};

class Backend {
 public:
  Backend() = default;
  Backend(Backend const&) = delete;
  Backend& operator=(Backend const&) = delete;
  virtual ~Backend() = default;
  /// Blocks until the call is done on this rank. One thread at a time (not always the same one), in the same order on
  /// every rank. The call has passed comm::refusal(). Throws PeerFailure or Failure; after that, every call throws the
  /// same.
  virtual void run(comm::Call const& call) = 0;
  /// Collective: every rank asks for the same number of bytes. Returns memory at `kAlignment` that run() uses in place.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// "host backend, 2 nodes, 4 ranks share memory here".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Tells the peers that this rank makes no more calls: a peer that still calls gets PeerFailure (left). Allocated
  /// memory stays until destruction, which leaves as well. Called at most once, with no call in progress.
  virtual void leave() noexcept {}
  /// Ends the backend from outside: the call in progress and all later ones throw `facts`, unless there is an earlier
  /// failure. From any thread, also at the same time as other functions and after leave(); returns at once.
  virtual void abort(FailureFacts const& /*facts*/) noexcept {}
  /// Makes waits in run() give up, now and later. Such a wait first calls `answer`. Then it throws that its peer is
  /// late, or, if it has waited for less than half of its time, fails as if the launcher had ended the generation. From
  /// any thread; returns at once. Only the first call counts.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): kept by those that override it
  virtual void give_up_early(std::function<void()> /*answer*/) noexcept {}

  // For a backend that runs some of the calls by other means, and asks this one about the peers.

  /// run() with its own timeout, after throwing what trouble() reports: local peers that know nothing of the trouble
  /// learn of it that way.
  virtual void run_within(comm::Call const& call, std::chrono::milliseconds /*patience*/) { run(call); }
  /// From any thread, but only while no call is in progress. Cheap enough to be called every millisecond.
  [[nodiscard]] virtual Trouble trouble() noexcept { return Trouble::none; }
  /// Null for a backend without a device.
  [[nodiscard]] virtual DeviceQueue* device() noexcept { return nullptr; }
};

}  // namespace cxxrun::host
