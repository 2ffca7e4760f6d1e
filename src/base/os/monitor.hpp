// The monitor: the agent and its parent, each of which cleans up after the other (docs/design/supervision.md). Shell.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/shared_page.hpp"
#include "src/base/os/signals.hpp"

namespace cxxrun::os {

// Kept ports: listening sockets that an agent leaves with its parent, which outlives it. As long as one of the two
// holds a socket no other process can listen at its port (docs/design/supervision.md).

/// The agent's end of the channel to its parent. No function blocks. Not thread-safe.
class PortKeeper {
 public:
  explicit PortKeeper(UniqueFd channel) : channel_(std::move(channel)) {}

  /// Gives the parent a copy of `listener`, which it holds for `hold` after the end of this agent. Errc::io, also when
  /// the parent has been stopped for long.
  [[nodiscard]] Result<void> keep(int listener, Millis hold);
  /// No worker calls there any more: the parent closes all of them.
  void release();
  /// As KeptPorts::hold, for an agent that outlives its parent.
  [[nodiscard]] Millis hold() const { return kept_.empty() ? Millis{0} : hold_; }
  /// Makes this process look ended to others: ends all its TCP connections, and refuses calls at all ports but the kept
  /// ones.
  void hang_up_on_all() const;

 private:
  UniqueFd channel_;
  std::vector<ino_t> kept_;
  Millis hold_{0};
};

/// The parent's end.
class KeptPorts {
 public:
  static constexpr std::size_t kMost = 32;  ///< sockets; beyond that the oldest is closed

  KeptPorts() = default;
  explicit KeptPorts(UniqueFd channel) : channel_(std::move(channel)) {}

  /// Readable when take() is due; -1 once the agent has ended.
  [[nodiscard]] int fd() const { return channel_.get(); }
  /// Takes the sockets that the agent has sent.
  void take();
  /// How long to hold them after the end of the agent; 0: none are held.
  [[nodiscard]] Millis hold() const { return sockets_.empty() ? Millis{0} : hold_; }

 private:
  UniqueFd channel_;
  std::deque<UniqueFd> sockets_;
  Millis hold_{0};
};

/// Both ends of a channel, close-on-exec. Errc::io.
struct PortKeeping {
  std::shared_ptr<PortKeeper> agent;
  KeptPorts parent;
};
[[nodiscard]] Result<PortKeeping> keep_ports();

/// What the agent is given.
struct AgentSide {
  pid_t parent = 0;
  UniqueFd parent_watch;               ///< readable once the parent is dead; then call sweep_and_exit
  sigset_t signals{};                  ///< blocked since before the fork: open a SignalFd over it, nothing is lost
  SharedPage* page = nullptr;          ///< lease and death notice, for the parent to read
  UniqueFd standby;                    ///< listens where this agent can be called; may be none
  std::shared_ptr<PortKeeper> keeper;  ///< for the sockets whose ports other nodes know
  bool interrupt_ignored = false;  ///< SIGINT was ignored at the start (`cxxrun … &` in a script): Ctrl-C is not for us
};

/// Splits this process. In the child it runs `agent_main` and returns its result. In the parent it passes signals on
/// until the agent ends, stops every process that the agent left, and returns the agent's exit code, or 128 + signal
/// after a line on stderr that says so. main() returns the value in both. Call it first of all: before any thread
/// exists and before anything is buffered. Ignores SIGPIPE in both. Errc::io when the system lacks a process or a
/// descriptor. `standby` (open_standby) may be none; calls to it are refused once all processes here are reaped. The
/// sockets that the agent has given its `keeper` and not taken back are held as long as it has asked for, or until a
/// signal comes; only then the parent returns.
[[nodiscard]] Result<int> run_under_parent(std::function<int(AgentSide const&)> const& agent_main,
                                           UniqueFd standby = {});

/// For the agent when its parent is gone: kills every descendant (at most 5 s), says so, sends the death notice if
/// there is one (at most 0.2 s), ends all connections, holds the kept ports in the parent's place, and exits with 137.
[[noreturn]] void sweep_and_exit(AgentSide const& side);

/// For a process without such a parent: starts a child that only holds the kept ports once this process has died. Call
/// it before any thread exists. Errc::io.
[[nodiscard]] Result<std::shared_ptr<PortKeeper>> start_port_holder();

/// Whether the parent passes a signal on to the agent. A terminal's Ctrl-C and Ctrl-\ reach the agent directly, because
/// it is in the same process group; they are not passed on, so that each counts once. Pure.
[[nodiscard]] inline bool passes_on(SignalInfo const& signal) {
  return signal.code != SI_KERNEL || (signal.signal != SIGINT && signal.signal != SIGQUIT);
}

/// Opens /dev/null for each of 0, 1 and 2 that is closed, so that no other descriptor gets one of these numbers.
void ensure_standard_descriptors();

}  // namespace cxxrun::os
