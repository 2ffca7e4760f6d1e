// Backend: what carries out calls. The host backend is in this folder; a backend for GPUs implements the same. Shell.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "src/base/core/call.hpp"

namespace cxxrun::host {

class DeviceQueue;
struct FailureFacts;

/// What is known of the peers without a call.
enum class Trouble : std::uint8_t {
  none,
  left,    ///< one has left; it may have had reason to
  failed,  ///< one died or a call failed somewhere: the next call throws it
};

class Backend {
 public:
  Backend() = default;
  Backend(Backend const&) = delete;
  Backend& operator=(Backend const&) = delete;
  virtual ~Backend() = default;
  /// Blocks until the call is done on this rank. One thread at a time (not always the same one), the same order on
  /// every rank. The call has passed comm::refusal(). Throws PeerFailure or Failure; from then on it throws the same.
  virtual void run(comm::Call const& call) = 0;
  /// Collective: every rank asks for the same number of bytes. Memory at `kAlignment` that run() uses in place.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  /// "host backend, 2 nodes, 4 ranks share memory here".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// Tells the peers that this rank makes no more calls: one that still calls gets PeerFailure (left). Allocated
  /// memory stays until destruction, which leaves too. Called at most once, with no call under way.
  virtual void leave() noexcept {}
  /// Ends it from outside: the call under way and every later one throw `facts`, unless there is a failure already.
  /// From any thread, also beside the others and after leave(); returns at once.
  virtual void abort(FailureFacts const& /*facts*/) noexcept {}
  /// Whoever waits in run() gives up, now and later, and calls `answer`: it throws that its peer is late, or, if it has
  /// waited for less than half of the time that it may, as if the launcher had ended the generation. From any thread;
  /// returns at once. Only the first call counts.
  virtual void hurry(std::function<void()> /*answer*/) noexcept {}  // NOLINT(performance-unnecessary-value-param): kept

  // For a backend that carries out some of the calls by other means, and asks this one about the peers.

  /// run() with a patience of its own, which first throws what trouble() is about: mates that see nothing of it learn
  /// it that way.
  virtual void run_within(comm::Call const& call, std::chrono::milliseconds /*patience*/) { run(call); }
  /// Any thread, but only while no call is under way. Cheap enough to be asked every millisecond.
  [[nodiscard]] virtual Trouble trouble() noexcept { return Trouble::none; }
  /// Of a backend with a device; else null.
  [[nodiscard]] virtual DeviceQueue* device() noexcept { return nullptr; }
};

}  // namespace cxxrun::host
