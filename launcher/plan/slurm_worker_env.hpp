// What a worker finds in the SLURM_* variables, so that a program that reads them itself gets its own numbers and not
// those of the task that carries it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "rendezvous/values/generation.hpp"

namespace cxxrun::launcher {

/// Variables to set and, without a value, to remove.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

/// The changes for worker `index` (local rank) of this agent; docs/use/environment.md has the table. Every inherited
/// variable that is replaced or removed stays readable with CXXRUN_ before its name. `one_per_task`: srun started this
/// worker's task for it alone, so the variables are right. Nothing changes outside Slurm.
[[nodiscard]] EnvironmentChanges slurm_changes(SlurmEnv mode, rendezvous::Generation const& generation,
                                               std::uint32_t index, bool one_per_task, Environment const& inherited);

}  // namespace cxxrun::launcher
