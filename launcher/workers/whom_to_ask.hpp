// Which processes of a worker are asked to end: its program, and not the program's helpers. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cxxrun::launcher {

/// What one process does with a signal.
struct Seen {
  bool handles = false;     ///< it has a handler, or blocks the signal
  bool only_waits = false;  ///< whatever it handles: it does so after what it waits for has ended, and hands nothing on
};
/// Nothing: there is no such child of that parent any more.
using Look = std::function<std::optional<Seen>(pid_t pid, pid_t parent)>;
using ChildrenOf = std::function<std::vector<pid_t>(pid_t pid)>;

struct WhomToAsk {
  std::vector<pid_t> all;       ///< parents first
  std::vector<pid_t> programs;  ///< those of them that handle the signal: they may have something to save
};

/// A process that handles the signal is asked alone: what it has started are its helpers, which it may need for saving.
/// One that does not is asked together with its children, and these in turn: it ends without a word to them, or ignores
/// it. So is one that only waits. Adds them to `asked`.
void whom_to_ask(pid_t pid, pid_t parent, Look const& look, ChildrenOf const& children, WhomToAsk& asked);

/// Whether the program at this path is such a one: a shell that runs a script, or unshare.
[[nodiscard]] bool only_waits(std::string_view path);

}  // namespace cxxrun::launcher
