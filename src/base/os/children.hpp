// The children of this process: reaping, and the sweep that leaves no descendant behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <sys/types.h>
#include <vector>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::os {

/// Makes this process the one that orphans among its descendants are given to (PR_SET_CHILD_SUBREAPER).
void become_subreaper();

/// One child that was reaped.
struct Reaped {
  pid_t pid = 0;
  ExitStatus status;
};
/// Reaps one child that has ended, whichever; nothing when none has. Never blocks.
[[nodiscard]] std::optional<Reaped> reap_any();
/// Takes the exit of that child if it has ended. Never blocks.
[[nodiscard]] std::optional<ExitStatus> reap(pid_t pid);
/// A child that has ended and waits to be reaped.
struct EndedChild {
  pid_t pid = 0;
  std::uint64_t peak = 0;  ///< bytes of the largest resident set, its own or that of a child that it has waited for
};
/// Whichever; nothing when there is none. Takes nothing, never blocks.
[[nodiscard]] std::optional<EndedChild> peek_ended();
/// Whether any child is left, zombies included. In a subreaper "no" proves that no descendant is left.
[[nodiscard]] bool has_children();

/// SIGKILLs and reaps children until none is left or `deadline` has passed; false: some are left. Only direct
/// children are signalled, so that no reused pid is ever hit: the others become direct children when their parents
/// die. `spare`: children that are not to be touched. Blocks; reaps everything, so only for a process that ends.
bool sweep_descendants(TimePoint deadline, std::vector<pid_t> const& spare = {});

/// Sends the signal to every descendant of `root` that can still take it: zombies cannot, for SIGSTOP the stopped ones
/// need not, nor for SIGKILL the dying ones. Returns how many got it. A process that forks meanwhile may leave a child
/// without it: repeat until 0.
std::size_t signal_descendants(pid_t root, int signal);

}  // namespace cxxrun::os
