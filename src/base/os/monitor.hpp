// The monitor: the two processes of a node, each of which cleans up after the other (docs/design/supervision.md).
#pragma once

#include <functional>
#include <memory>
#include <sys/types.h>

#include "src/base/os/kept_ports.hpp"
#include "src/base/os/shared_page.hpp"
#include "src/base/os/signals.hpp"

namespace cxxrun::os {

/// What the agent is given.
struct AgentSide {
  pid_t parent = 0;
  UniqueFd parent_watch;               ///< readable once the parent is dead; then call sweep_and_exit
  sigset_t signals{};                  ///< blocked since before the fork: open a SignalFd over it, nothing is lost
  SharedPage* page = nullptr;          ///< lease and death notice, for the parent to read
  UniqueFd standby;                    ///< listens where this agent can be called; none when nobody may have to
  std::shared_ptr<PortKeeper> keeper;  ///< of the sockets whose ports are told to other nodes
  bool interrupt_ignored = false;  ///< SIGINT was ignored at start (`cxxrun … &` in a script): Ctrl-C is not for us
};

/// Splits this process. In the child runs `agent_main` and returns its result; in the parent passes signals on until
/// the agent ends, stops whatever it left, and returns the agent's exit code, or 128 + signal after a line on stderr
/// that says so. main() returns the value in both. Call it first thing: before any thread exists and before anything
/// is buffered. Ignores SIGPIPE in both. Errc::io when the system lacks a process or a descriptor.
/// `standby` (standby_socket.hpp) may be none; a call to it is refused once everything here is reaped. What the agent
/// has given its `keeper`, and not taken back, is held for as long as it has asked for, or until a signal comes: only
/// then this returns.
[[nodiscard]] Result<int> run_under_parent(std::function<int(AgentSide const&)> const& agent_main,
                                           UniqueFd standby = {});

/// For the agent when its parent is gone: kills every descendant (at most 5 s), says so, sends the death notice itself
/// when the page holds one (at most 0.2 s), hangs up on all, holds what its keeper keeps in the parent's place, and
/// exits 137.
[[noreturn]] void sweep_and_exit(AgentSide const& side);

/// For a process that has no such parent: starts a child, which does nothing but hold what the keeper keeps once this
/// process has died. Call it before any thread exists. Errc::io.
[[nodiscard]] Result<std::shared_ptr<PortKeeper>> start_port_holder();

/// Whether the parent passes a signal on to the agent. A terminal's Ctrl-C and Ctrl-\ reach the agent by
/// themselves, being in the same process group, and are not passed on: each counts once. Pure.
[[nodiscard]] inline bool passes_on(SignalInfo const& signal) {
  return signal.code != SI_KERNEL || (signal.signal != SIGINT && signal.signal != SIGQUIT);
}

/// Opens /dev/null for whichever of 0, 1, 2 is closed, so that no descriptor of ours is taken for one of them.
void ensure_standard_descriptors();

}  // namespace cxxrun::os
