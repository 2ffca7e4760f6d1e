// spawn: starts one worker process by vfork and execve, and tells a failed start from a failed program. Shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// What to start. The child leads its own session, dies with the thread that called spawn (PDEATHSIG), is killed before
/// the caller when memory runs out (oom_score_adj), has the default signal mask and dispositions, and holds no
/// descriptors but 0, 1, 2 and `keep`.
struct SpawnRequest {
  std::string path;                      ///< file to execute, as found by find_program
  std::vector<std::string> argv;         ///< at least one
  std::vector<std::string> environment;  ///< complete, "K=V"
  std::string directory;                 ///< working directory; "" = the caller's
  int in = -1;                           ///< descriptors to become 0, 1, 2: above 2, or already in place;
  int out = -1;                          ///<   -1 = /dev/null
  int err = -1;
  std::vector<std::uint32_t> cpus;           ///< CPUs to bind it to; empty = inherit
  std::optional<std::uint64_t> nofile_soft;  ///< soft RLIMIT_NOFILE to set; nothing = inherit
  std::vector<int> keep;                     ///< further descriptors, above 2, under the same numbers
};

/// The step at which a start failed.
enum class SpawnStage { find, fork, session, directory, descriptors, cpus, exec };

/// A pid, or the errno of the step that failed; then no process and no zombie is left.
struct SpawnResult {
  pid_t pid = 0;
  int error = 0;
  SpawnStage stage = SpawnStage::exec;
  [[nodiscard]] bool ok() const { return error == 0; }
};

/// Blocks the calling thread until the child has executed the program or failed: about 0.2 ms on a local disk.
/// Call it only from a thread that lives as long as the process: the child dies with it.
[[nodiscard]] SpawnResult spawn(SpawnRequest const& request);

/// The file that `name` means: `name` itself when it has a slash, else the first executable file in the PATH of
/// `environment`. `error`: ENOENT when there is none; EACCES when there are only files that may not be executed, and
/// then `path` is the first of them.
struct FoundProgram {
  std::string path;
  int error = 0;
};
[[nodiscard]] FoundProgram find_program(std::string const& name, std::vector<std::string> const& environment);

/// A program from PATH whose stdout and stderr can be read from `output`; its stdin is /dev/null.
struct PipedProgram {
  pid_t pid = 0;
  UniqueFd output;
};
/// Errors: not_found (it is not in PATH), io. As `spawn` otherwise.
[[nodiscard]] Result<PipedProgram> spawn_piped(std::vector<std::string> argv, std::vector<std::string> environment);

/// The remedy for a file that was not found.
inline constexpr std::string_view kIsItThere = "; is the path right, and its file system mounted on this node?";
/// The remedy for a file that may not be executed.
inline constexpr std::string_view kNotExecutable =
    "not an executable file; try 'chmod +x', or name the interpreter before it";
/// One line for the report: what could not be started, why, and a remedy. Reads the limits as they are now.
[[nodiscard]] std::string explain_failed_start(std::string const& name, SpawnStage stage, int error);

// For a child between fork and exec. They make system calls only, allocate nothing and take no lock, so a child that
// shares its parent's memory may call them.

/// Closes every descriptor from `first` on.
void close_from(unsigned first);
/// Sets close-on-exec on every descriptor from `first` on.
void close_on_exec_from(unsigned first);

}  // namespace cxxrun::os
