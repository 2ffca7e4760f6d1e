// Finds the program of a worker and checks that it can be executed, for the start of workers and for --dry-run. Shell.
#pragma once

#include <string>

#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::launcher {

struct WorkerProgram {
  std::string path;    ///< the file to execute; "" when there is none. Set with ENOEXEC, too: the kernel may know more
                       ///< executable formats than this check
  std::string run_by;  ///< the interpreter that its first line names, also through `env`; "" when it is not a script
  int error = 0;       ///< errno; 0 when program and interpreter can be executed and the script can be read
  std::string why;     ///< one line with what to type instead
  std::string what;    ///< the file that causes the error
};
/// Does not check the dynamic loader of a binary, nor a script that only its interpreter can read.
[[nodiscard]] WorkerProgram find_worker_program(WorkerSpec const& spec);

/// "/home/u/job/train" for "./train"; a name without a slash stays as it is.
[[nodiscard]] std::string absolute_name(std::string const& name);
/// "'/home/u/job/train' (working directory /home/u/job)" for "./train"; a name without a slash stays as it is.
[[nodiscard]] std::string place_of(std::string const& name);

}  // namespace cxxrun::launcher
