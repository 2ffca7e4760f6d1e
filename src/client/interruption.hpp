// Interruption: ends what a thread waits for in the store, from another thread. Shell.
//
// A rank that looks for the others of a generation waits in many places of the store's client, for minutes if need be.
// When the generation is over meanwhile it must not.
#pragma once

#include <atomic>

#include "src/core/time.hpp"
#include "src/os/fd.hpp"

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

/// While it lives, waits of this thread (socket_ready(), pause()) end when `by` is raised; null: they do not. `by`
/// outlives it.
class Interruptible {
 public:
  explicit Interruptible(Interruption const* by) noexcept;
  ~Interruptible();
  Interruptible(Interruptible const&) = delete;
  Interruptible& operator=(Interruptible const&) = delete;

  [[nodiscard]] static bool interrupted() noexcept;  ///< this thread's waits
  [[nodiscard]] static int event() noexcept;         ///< readable when they are; -1: nothing interrupts them
  /// Sleeps.
  static void pause(Millis time);

 private:
  Interruption const* before_;
};

}  // namespace cxxrun::client
