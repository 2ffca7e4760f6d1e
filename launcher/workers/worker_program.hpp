// What the start of a worker would execute, looked at without starting it: for the start itself and for --dry-run.
// Shell.
#pragma once

#include <cerrno>
#include <string>

#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::launcher {

struct WorkerProgram {
  std::string path;  ///< the file to execute; "" when there is none
  int error = 0;     ///< errno; 0 when it can be executed and its script read
  std::string why;   ///< one line with what to type instead
  std::string what;  ///< the file that is in the way
};
[[nodiscard]] WorkerProgram find_worker_program(WorkerSpec const& spec);

/// Who runs a script, by its first line: the file, through `env` too.
struct Interpreter {
  std::string path;       ///< "" for a file that is no script, and when it is missing
  std::string missing{};  ///< one line: it does not exist, which the kernel tells as if the script did not, or the file
                          ///< is neither a script nor a program for this processor
  int error = ENOENT;     ///< errno of what is missing
};
[[nodiscard]] Interpreter find_interpreter(std::string const& name, std::string const& path,
                                           std::vector<std::string> const& environment);

/// "'/home/u/job/train' (working directory /home/u/job)" for "./train"; a name without a slash stays as it is.
[[nodiscard]] std::string place_of(std::string const& name);

}  // namespace cxxrun::launcher
