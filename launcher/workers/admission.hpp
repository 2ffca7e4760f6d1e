// Admission: whose worker a process is that calls at the agent's socket, and what the log says of those that are
// refused. Pure.
//
// Every worker begins with setsid, so its pid names the session of what it starts. The program behind a shell script,
// numactl, `conda run` or a container is in that session, be it in a pid namespace of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace cxxrun::launcher {

/// Who calls, as the kernel tells it to this process.
struct Caller {
  pid_t pid = 0;        ///< 0: in a pid namespace that is not within ours, like all others there
  pid_t session = 0;    ///< 0: led by such a process; negative: the caller is gone
  std::string program;  ///< for the log, of one that is refused
};

/// The local rank of a process that is a worker now; nothing: it is none.
using WhoIs = std::function<std::optional<std::uint32_t>(pid_t)>;

/// The local rank of the worker that the caller is, or in whose session it is; nothing: of none.
[[nodiscard]] std::optional<std::uint32_t> worker_of(Caller const& caller, WhoIs const& who);

/// What is known when a process registers.
struct Registration {
  std::optional<std::uint32_t> local_rank;  ///< worker_of() it
  pid_t holder = 0;                         ///< who is registered for that worker; 0: nobody
  std::uint64_t asked = 0;                  ///< the generation that it names
  std::uint64_t generation = 0;             ///< the one that runs
};
/// Why it is refused, "" when it is not. A worker has one place: whoever comes first keeps it while it is connected, so
/// that no helper which inherits the worker's environment takes it away.
[[nodiscard]] std::string why_not(Registration const& registration);

/// What is said of a process that is no worker's, and has to be.
inline constexpr char const* kNoWorker = "it is in the session of no worker of this agent (setsid leads out of it)";

/// The log's line about it.
[[nodiscard]] std::string refusal_line(Caller const& caller, std::optional<std::uint32_t> local_rank,
                                       std::string const& why);

}  // namespace cxxrun::launcher
