// What the start of a worker would execute, looked at without starting it: for the start itself and for --dry-run.
// Shell.
#pragma once

#include <string>

#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::launcher {

struct WorkerProgram {
  std::string path;  ///< the file to execute; "" when there is none. With ENOEXEC the kernel has the last word: it may
                     ///< know formats that nobody here knows of
  std::string run_by;  ///< the interpreter of its first line, through `env` too; "" for what is no script
  int error = 0;       ///< errno; 0 when it can be executed, its interpreter too, and its script be read
  std::string why;     ///< one line with what to type instead
  std::string what;    ///< the file that is in the way
};
/// A loader that a binary is linked to, and a script that only its interpreter may read, are not looked at.
[[nodiscard]] WorkerProgram find_worker_program(WorkerSpec const& spec);

/// "/home/u/job/train" for "./train"; a name without a slash stays as it is.
[[nodiscard]] std::string absolute_name(std::string const& name);
/// "'/home/u/job/train' (working directory /home/u/job)" for "./train"; a name without a slash stays as it is.
[[nodiscard]] std::string place_of(std::string const& name);

}  // namespace cxxrun::launcher
