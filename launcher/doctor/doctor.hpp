// `cxxrun --doctor`: looks at this node, and says what would keep a job from running; `cxxrun --init`. Shell.
#pragma once

#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/secret_file.hpp"
#include "launcher/place/slurm_env.hpp"

namespace cxxrun::launcher::doctor {

/// Prints the table, or with --json an object. The exit code: 0, or 1 when there is a failure.
[[nodiscard]] int run_doctor(Options const& options, Environment const& environment, Whereabouts const& here,
                             GivenSecret const& secret);

/// Prints a job script for the partitions that sinfo tells of within 5 s, which runs `words` but "--init". 0.
[[nodiscard]] int run_init(Options const& options, std::vector<std::string> words, Environment const& environment);

}  // namespace cxxrun::launcher::doctor
