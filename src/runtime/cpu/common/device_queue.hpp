// DeviceQueue: calls on device memory, which are queued on a device and not waited for. Offered by a Backend that has
// a device; what is on host memory goes to its run().
//
// Everything is queued in the order of the calls. A point is a place in that queue: it is reached when everything
// before it is done. Points grow.
//
// Threads: submit() as Backend::run(); everything else from any thread. Errors: PeerFailure and Failure, thrown by the
// call that finds them and by all later ones. done() and wait() of a point that had been reached before never throw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cxxrun/stream.hpp"
#include "src/base/core/call.hpp"

namespace cxxrun::host {

class DeviceQueue {
 public:
  DeviceQueue() = default;
  DeviceQueue(DeviceQueue const&) = delete;
  DeviceQueue& operator=(DeviceQueue const&) = delete;
  virtual ~DeviceQueue() = default;

  /// Before the first call. From any thread, busy(true) is called when one begins and none is under way, and
  /// busy(false) when all are done; where one has failed, it is not.
  virtual void report(std::function<void(bool)> busy) = 0;

  /// Throws, as what follows does, when that cannot be told: then the device has failed.
  [[nodiscard]] virtual bool is_device(void const* memory) = 0;
  /// Whether the call's buffers are device memory.
  [[nodiscard]] virtual bool takes(comm::Call const& call) = 0;
  /// What no rank may ask for here, in addition to comm::refusal(): buffers of two kinds, min and max of floating point
  /// types. The sentence, or nothing.
  [[nodiscard]] virtual std::optional<std::string> refusal(comm::Call const& call) = 0;

  /// Queues the call behind what call.stream holds by now; the point at which it is done. Blocks only while the
  /// device is hundreds of calls behind.
  [[nodiscard]] virtual std::uint64_t submit(comm::Call const& call) = 0;
  /// What follows comes after what `stream` holds by now.
  virtual void after(Stream stream) = 0;
  /// data[i] *= factor; a factor of 0 gives zeros, whatever was there.
  virtual void multiply(DType type, void* data, std::size_t count, double factor) = 0;
  /// *sum, on the device, += Σ data[i]².
  virtual void add_squares(DType type, void const* data, std::size_t count, double* sum) = 0;
  /// Between host and device or within the device. Host memory has to stay until a mark() after it is reached.
  virtual void copy(void* to, void const* from, std::size_t bytes) = 0;
  [[nodiscard]] virtual std::uint64_t mark() = 0;

  [[nodiscard]] virtual bool done(std::uint64_t point) noexcept = 0;  ///< or failed
  /// Blocks the host.
  virtual void wait(std::uint64_t point) = 0;
  /// `stream` goes on after the point; the host does not wait.
  virtual void wait_on(std::uint64_t point, Stream stream) = 0;
};

}  // namespace cxxrun::host
