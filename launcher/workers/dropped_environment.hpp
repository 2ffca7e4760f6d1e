// Finds out whether a wrapper has started a worker's program without the variables that cxxrun has set: `env -i`,
// `enroot start`, `apptainer exec --cleanenv`, `podman run` without --env-host, sudo. Without them each worker believes
// to be rank 0 of 1. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cxxrun::launcher {

/// Whether a process was started with cxxrun's variables, by /proc/PID/environ.
enum class Arrived {
  yes,
  no,
  unknown,  ///< not readable, or the program keeps other text there, such as a title
};
/// `variables`: nothing when they are not readable.
[[nodiscard]] Arrived arrived(std::optional<std::string> const& variables);

/// One process of a worker.
struct ObservedProcess {
  std::string comm;  ///< its name, at most 15 bytes
  Arrived arrived = Arrived::unknown;
};
/// How processes are inspected.
struct ProcessView {
  std::function<std::optional<ObservedProcess>(pid_t)> program;  ///< nothing when the process has ended
  std::function<std::vector<pid_t>(pid_t)> children;             ///< called for wrappers only
};

/// A program that was started without the variables.
struct Dropped {
  pid_t pid = 0;
  std::string comm;
  std::string behind;  ///< process name of the wrapper that has dropped them; "" when it is unknown or has exec'ed
};
/// Searches behind wrappers only: a process that a training program starts without the variables is its helper. Nothing
/// when some program of this worker has them, or none is known to lack them.
[[nodiscard]] std::optional<Dropped> find_dropped(pid_t worker, ProcessView const& view);

/// The log line: which wrapper has dropped the variables and what to type instead, as far as the worker's command
/// `argv` and the wrapper's name tell.
[[nodiscard]] std::string dropped_line(Dropped const& dropped, std::vector<std::string> const& argv);

}  // namespace cxxrun::launcher
