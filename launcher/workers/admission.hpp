// Admission: whose worker a process is that calls at the agent's socket, and what the log says of those that are
// refused. Pure.
//
// Every worker begins with setsid, so its pid names the session of what it starts. The program behind a shell script,
// numactl, `conda run` or a container is in that session, be it in a pid namespace of its own. One that a wrapper has
// moved into another session (setsid, bwrap --new-session) still descends from the worker. Where what was in between
// has ended (podman's monitor) it descends from this agent, which orphans are given to, and so from one of its workers:
// from which one its environment says. All of that the kernel tells; no other job's process and no other user's
// descends from this agent.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cxxrun::launcher {

/// Who calls, as the kernel tells it to this process.
struct Caller {
  pid_t pid = 0;                   ///< 0: in a pid namespace that is not within ours, like all others there
  pid_t session = 0;               ///< 0: led by such a process; negative: the caller is gone
  std::string program;             ///< for the log, of one that is refused
  std::vector<pid_t> ancestors{};  ///< nearest first
  bool ours = false;               ///< this agent is one of its ancestors
  pid_t named = 0;                 ///< the worker that its environment says it is of; 0: it names none
};

/// The local rank of a process that is a worker now; nothing: it is none.
using WhoIs = std::function<std::optional<std::uint32_t>(pid_t)>;

/// The local rank of the worker that the caller is, in whose session it is, or from which it descends; nothing: of
/// none.
[[nodiscard]] std::optional<std::uint32_t> worker_of(Caller const& caller, WhoIs const& who);
/// Of one that is no worker_of(): of the worker that it names, where it descends from this agent; nothing: of none.
[[nodiscard]] std::optional<std::uint32_t> worker_named(Caller const& caller, WhoIs const& who);
/// RANK in /proc/PID/environ, where that has `socket` for one of the agent's; nothing: it is another agent's.
[[nodiscard]] std::optional<std::uint32_t> rank_of_agent(std::string const& variables, std::string const& socket);

/// What is known when a process registers.
struct Registration {
  std::optional<std::uint32_t> local_rank;  ///< worker_of() it
  pid_t holder = 0;                         ///< who is registered for that worker; 0: nobody
  std::uint64_t asked = 0;                  ///< the generation that it names
  std::uint64_t generation = 0;             ///< the one that runs
};
/// Why it is refused, "" when it is not. A worker has one place: whoever comes first keeps it while it is connected, so
/// that no helper which inherits the worker's environment takes it away.
[[nodiscard]] std::string why_not(Registration const& registration, Caller const& caller);

/// What is said of a process that is no worker's, and has to be.
[[nodiscard]] std::string no_worker(Caller const& caller);

/// The log's line about it.
[[nodiscard]] std::string refusal_line(Caller const& caller, std::optional<std::uint32_t> local_rank,
                                       std::string const& why);

}  // namespace cxxrun::launcher
