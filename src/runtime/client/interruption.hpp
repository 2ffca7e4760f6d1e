// Interruption: ends a thread's wait in the store client from another thread. Shell.
//
// A rank that looks for the others of a generation may wait for minutes, at many places of the store client. It must
// stop when the generation is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

/// Raised at most once, by any thread; stays raised.
class Interruption {
 public:
  Interruption();  ///< throws Failure (io) if there are no descriptors left
  void raise() noexcept;
  [[nodiscard]] bool raised() const noexcept { return raised_.load(std::memory_order_acquire); }
  /// Waits until it is raised, for at most `most`; returns whether it is raised.
  bool wait(Millis most) const;

 private:
  friend class Interruptible;
  os::UniqueFd event_;
  std::atomic<bool> raised_{false};
};

/// While this object lives, waits of this thread (ready(), pause()) end when `by` is raised; null: they do not. `by`
/// must outlive it.
class Interruptible {
 public:
  explicit Interruptible(Interruption const* by) noexcept : before_(std::exchange(current, by)) {}
  ~Interruptible() { current = before_; }
  Interruptible(Interruptible const&) = delete;
  Interruptible& operator=(Interruptible const&) = delete;

  [[nodiscard]] static bool interrupted() noexcept { return current != nullptr && current->raised(); }
  /// Waits until poll(2) reports one of `events` for `fd` (or an error, which the next call on it will return). False
  /// if the deadline passes or the Interruption is raised first.
  [[nodiscard]] static bool ready(int fd, short events, TimePoint deadline);
  /// Sleeps, unless interrupted.
  static void pause(Millis time) { static_cast<void>(ready(-1, 0, Clock::now() + time)); }

 private:
  static thread_local Interruption const* current;
  Interruption const* before_;
};

/// Waits for the end of a generation without making a call. Belongs to the generation that is current when it is made.
/// Threads: wait() by one.
struct Ending {
  Interruption over{};
  std::uint64_t generation = 0;
  worker::AgentLink::Watch watch{};  ///< raises `over`, and is destroyed before it

  /// Waits for at most `most`. Throws PeerFailure (stopped) when the generation is over; without an agent it never is.
  void wait(Millis most) const {
    auto const began = Clock::now();
    if (over.wait(most)) {
      host::throw_failure(host::stopped_by_launcher(), generation, began);
    }
  }
};

}  // namespace cxxrun::client
