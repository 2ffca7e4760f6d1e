// Interruption: ends what a thread waits for in the store, from another thread. Shell.
//
// A rank that looks for the others of a generation waits in many places of the store's client, for minutes if need be.
// When the generation is over meanwhile it must not.
#pragma once

#include <atomic>
#include <utility>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::client {

/// Raised once, by any thread, and for ever.
class Interruption {
 public:
  Interruption();  ///< throws Failure (io) when there is no descriptor
  void raise() noexcept;
  [[nodiscard]] bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  /// Until it is raised, or for so long; whether it is raised.
  bool wait(Millis most) const;

 private:
  friend class Interruptible;
  os::UniqueFd event_;
  std::atomic<bool> raised_{false};
};

/// While it lives, waits of this thread (ready(), pause()) end when `by` is raised; null: they do not. `by` outlives
/// it.
class Interruptible {
 public:
  explicit Interruptible(Interruption const* by) noexcept : before_(std::exchange(current, by)) {}
  ~Interruptible() { current = before_; }
  Interruptible(Interruptible const&) = delete;
  Interruptible& operator=(Interruptible const&) = delete;

  [[nodiscard]] static bool interrupted() noexcept { return current != nullptr && current->raised(); }
  /// Waits until poll(2) reports one of `events` of `fd` (or an error, which the next call on it will tell); false when
  /// the deadline came first, or the Interruption.
  [[nodiscard]] static bool ready(int fd, short events, TimePoint deadline);
  /// Sleeps.
  static void pause(Millis time) { static_cast<void>(ready(-1, 0, Clock::now() + time)); }

 private:
  static thread_local Interruption const* current;
  Interruption const* before_;
};

}  // namespace cxxrun::client
