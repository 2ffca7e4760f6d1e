// The children of this process: reaping, signals to them and all descendants, and the sweep that leaves none behind.
// Shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sys/types.h>
#include <vector>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// Makes this process the new parent of orphans among its descendants (PR_SET_CHILD_SUBREAPER).
void become_subreaper();

/// A child that was reaped.
struct Reaped {
  pid_t pid = 0;
  ExitStatus status;
};
/// Reaps any one child that has ended; nothing when none has. Never blocks.
[[nodiscard]] std::optional<Reaped> reap_any();
/// Reaps that child if it has ended. Never blocks.
[[nodiscard]] std::optional<ExitStatus> reap(pid_t pid);
/// A child that has ended and waits to be reaped.
struct EndedChild {
  pid_t pid = 0;
  std::uint64_t peak = 0;  ///< bytes of the largest resident set: its own, or that of a child that it has reaped
  Millis busy{0};          ///< CPU time: its own, and that of the children that it has reaped
};
/// Any such child, without reaping it. Never blocks.
[[nodiscard]] std::optional<EndedChild> peek_ended();
/// Whether any child is left, including zombies. In a subreaper false proves that no descendant is left.
[[nodiscard]] bool has_children();

/// Kills (SIGKILL) and reaps children until none is left or `deadline` has passed; false: some are left. Only direct
/// children are signalled, so no reused pid is ever hit; the others become direct children when their parents die.
/// `spare`: children to leave alone. Blocks, and reaps every child, so call it only in a process that ends.
bool sweep_descendants(TimePoint deadline, std::vector<pid_t> const& spare = {});

/// Sends the signal to every descendant of `root` on which it has an effect: not to zombies, SIGSTOP not to stopped
/// processes, SIGKILL not to dying ones. Returns how many got it. A child that is forked during the call may be missed,
/// so repeat until 0.
std::size_t signal_descendants(pid_t root, int signal);

/// A process to send signals to, held so that a signal never hits another process with a reused pid.
///
/// Holds it by a pidfd. Without one (before Linux 5.3, forbidden by a filter, no descriptor left) it remembers the pid
/// and the start time, and compares them before each signal; then another process is hit only if the pid is reused
/// between these two calls. Not thread-safe.
class HeldProcess {
 public:
  /// Nothing when there is no such process. Hold it first, then check what process it is.
  [[nodiscard]] static std::optional<HeldProcess> hold(pid_t pid);

  /// Sends the signal. False if it could not be sent.
  bool send(int signal) const;  // NOLINT(modernize-use-nodiscard): callers may ignore it
  /// False once it has ended, reaped or not.
  [[nodiscard]] bool runs() const;
  /// Readable once it has ended. -1: poll runs() instead.
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  pid_t pid_ = 0;
  UniqueFd fd_;
  std::uint64_t start_ = 0;  ///< used when there is no descriptor
};

}  // namespace cxxrun::os
