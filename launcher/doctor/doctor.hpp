// `cxxrun --doctor`: checks this node, or all nodes of a step, for what would keep a job from running; `cxxrun --init`.
// Shell.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/finding.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/secret_file.hpp"
#include "launcher/place/slurm_env.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/helper_children.hpp"

namespace cxxrun::launcher::doctor {

/// Prints the table, or a JSON object with --json. Returns the exit code: 1 if there is a failure, else 0.
[[nodiscard]] int run_doctor(Options const& options, Environment const& environment, Whereabouts const& here,
                             GivenSecret const& secret);

/// Prints a job script that runs `words` without "--init", for the partitions that sinfo lists within 5 s. Returns 0.
[[nodiscard]] int run_init(Options const& options, std::vector<std::string> words, Environment const& environment);

// The token: a file by which nodes see whether they share one working directory and its locks. Neither function has a
// time limit: call them only where that directory has just answered.

/// On the first node: creates the file and locks it for as long as the descriptor is open. Empty if it cannot be
/// created. Sets "fs.shared" and "fs.locked".
[[nodiscard]] os::UniqueFd show_token(std::string const& name, os::Caretaker const& caretaker, Facts& facts);
/// On another node: sets "fs.shared" and "fs.lock_seen".
void look_for_token(std::string const& name, Facts& facts);

}  // namespace cxxrun::launcher::doctor
