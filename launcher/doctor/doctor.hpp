// `cxxrun --doctor`: looks at this node, and says what would keep a job from running. Shell.
#pragma once

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"

namespace cxxrun::launcher::doctor {

/// Prints the table, or with --json an object. The exit code: 0, or 1 when there is a failure.
[[nodiscard]] int run_doctor(Options const& options, Environment const& environment);

}  // namespace cxxrun::launcher::doctor
