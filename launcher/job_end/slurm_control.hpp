// SlurmControl: the one place that runs a Slurm command.
#pragma once

#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"
#include "src/core/time.hpp"

namespace cxxrun::launcher {

/// Runs `scontrol` with these arguments, without a shell, and returns what it writes to stdout, at most 64 KiB. Blocks
/// for at most `patience`; whoever takes longer is killed. Errors: not_found (no scontrol in PATH), timeout, refused
/// (the first line it wrote, when it exits with another code than 0), io. Only when this process has no children of its
/// own to supervise any more: see Supervisor.
[[nodiscard]] Result<std::string> scontrol(std::vector<std::string> const& arguments, Environment const& environment,
                                           Millis patience);

}  // namespace cxxrun::launcher
