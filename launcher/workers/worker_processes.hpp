// The processes behind a worker: which of them a stop signal is for, what they are called in the log when the worker
// has left them running, and which worker a process belongs to that calls at the agent's socket. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cxxrun::launcher {

// ---- Targets of a stop signal -------------------------------------------------------------------------------------

/// How one process responds to the signal.
struct SignalResponse {
  bool handles = false;  ///< it has a handler, or blocks the signal
  /// It acts on a signal only after the program it waits for has ended, and passes nothing on.
  bool only_waits = false;
};
/// Nothing when `parent` has no such child any more.
using InspectChild = std::function<std::optional<SignalResponse>(pid_t pid, pid_t parent)>;
using ChildrenOf = std::function<std::vector<pid_t>(pid_t pid)>;

struct SignalTargets {
  std::vector<pid_t> all;       ///< parents first
  std::vector<pid_t> programs;  ///< those of `all` that handle the signal: they may have something to save
};

/// Adds the targets of a signal among `pid` and its descendants.
///
/// A process that handles the signal is a target without its children: they are its helpers, and it may need them to
/// save. A process that does not handle it ends without telling its children, or ignores it, so the children are
/// targets, too. The same holds for a wrapper that only waits.
void add_signal_targets(pid_t pid, pid_t parent, InspectChild const& inspect, ChildrenOf const& children,
                        SignalTargets& targets);

/// Whether the program at this path only waits for another one: a shell that runs a script, or unshare.
[[nodiscard]] bool only_waits(std::string_view path);

// ---- Processes left behind ----------------------------------------------------------------------------------------

/// A process that a worker has left running at its end.
struct LeftBehind {
  int pid = 0;
  std::string name;                   ///< program_name()
  std::optional<std::uint32_t> rank;  ///< of the worker, if it is known
};

/// The command line of /proc/PID/cmdline without the program's directory, shortened: "python3 upload.py". `comm` when
/// the command line is empty.
[[nodiscard]] std::string program_name(std::string const& cmdline, std::string const& comm);
/// RANK in /proc/PID/environ.
[[nodiscard]] std::optional<std::uint32_t> rank_in(std::string const& variables);
/// "killed 2 processes that rank 1 had left: wandb-service (4711), sh (4712); …". Names only the first few.
[[nodiscard]] std::string killed_line(std::vector<LeftBehind> const& killed);

// ---- Callers at the agent's socket --------------------------------------------------------------------------------
//
// Every worker starts with setsid, so its pid is the session of the processes it starts. A program behind a shell
// script, numactl, `conda run` or a container is in that session, even if it has a pid namespace of its own. One that a
// wrapper has moved to another session (setsid, bwrap --new-session) still descends from the worker. When the processes
// between them have ended, as with podman's monitor, it is a child of this agent, which is a subreaper; its environment
// then says which worker it belongs to. All of this comes from the kernel. No process of another job or another user
// descends from this agent.

/// A caller, as the kernel describes it to this process.
struct Caller {
  pid_t pid = 0;                   ///< 0: its pid namespace is not below ours, so it has no pid here
  pid_t session = 0;               ///< 0: the session leader has no pid here; negative: the caller is gone
  std::string program;             ///< for the log line of a refusal
  std::vector<pid_t> ancestors{};  ///< nearest first
  bool of_agent = false;           ///< it descends from this agent
  pid_t named = 0;                 ///< the worker that its environment names; 0: none
};

/// The local rank of a process that is a worker now; nothing when it is not.
using WhoIs = std::function<std::optional<std::uint32_t>(pid_t)>;

/// The local rank of the worker that the caller is, whose session it is in, or that it descends from.
[[nodiscard]] std::optional<std::uint32_t> worker_of(Caller const& caller, WhoIs const& who);
/// For a caller without worker_of(): the local rank of the worker that its environment names, if it descends from this
/// agent.
[[nodiscard]] std::optional<std::uint32_t> worker_named(Caller const& caller, WhoIs const& who);
/// RANK in /proc/PID/environ, if a CXXRUN_ variable there names `socket`; otherwise it belongs to another agent.
[[nodiscard]] std::optional<std::uint32_t> rank_of_agent(std::string const& variables, std::string const& socket);

/// What the agent knows when a process registers.
struct Registration {
  std::optional<std::uint32_t> local_rank;  ///< of its worker, if it belongs to one
  pid_t holder = 0;                         ///< process registered for that worker; 0: none
  std::uint64_t asked = 0;                  ///< generation that the process names
  std::uint64_t generation = 0;             ///< generation that runs
};
/// The reason for refusing the registration; "" when it is accepted. A worker has one place, which the first process
/// keeps while it is connected: a helper that inherits the worker's environment cannot take it.
[[nodiscard]] std::string why_not(Registration const& registration, Caller const& caller);

/// The reason for refusing a caller that belongs to no worker.
[[nodiscard]] std::string no_worker(Caller const& caller);

/// The log line of a refusal.
[[nodiscard]] std::string refusal_line(Caller const& caller, std::optional<std::uint32_t> local_rank,
                                       std::string const& why);

}  // namespace cxxrun::launcher
