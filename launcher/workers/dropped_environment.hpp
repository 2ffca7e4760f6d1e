// Whether what cxxrun has set for a worker has reached its program, which a wrapper may have started without it: `env
// -i`, `enroot start`, `apptainer exec --cleanenv`, `podman run` without --env-host, sudo. Then every worker is rank 0
// of 1 to itself. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cxxrun::launcher {

/// What /proc/PID/environ, which shows what a process was started with, says of cxxrun's variables.
enum class Arrived {
  yes,
  no,
  unknown,  ///< it may not be read, or the program keeps other text there (a title)
};
/// `variables`: nothing when it may not be read.
[[nodiscard]] Arrived arrived(std::optional<std::string> const& variables);

/// One process of a worker.
struct SeenProgram {
  std::string comm;  ///< its name, at most 15 bytes
  Arrived arrived = Arrived::unknown;
};
/// How the shell finds out.
struct LookAt {
  std::function<std::optional<SeenProgram>(pid_t)> program;  ///< nothing: it is gone
  std::function<std::vector<pid_t>(pid_t)> children;         ///< asked of wrappers alone
};

/// A program without them.
struct Dropped {
  pid_t pid = 0;
  std::string comm;
  std::string behind;  ///< process of the wrapper that has dropped them; "": not known, or in its own place
};
/// Looks behind wrappers alone: what a training program starts without its variables is its helper. Nothing: some
/// program of this worker has them, or none can be seen to have none.
[[nodiscard]] std::optional<Dropped> find_dropped(pid_t worker, LookAt const& look);

/// The line about it: who has dropped them and what to type instead, as far as the worker's command `argv` and the
/// wrapper's name tell.
[[nodiscard]] std::string dropped_line(Dropped const& dropped, std::vector<std::string> const& argv);

}  // namespace cxxrun::launcher
