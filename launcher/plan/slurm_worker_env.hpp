// Gives each worker SLURM_* variables of its own, so that a program that reads them sees the worker's numbers and not
// those of the task that runs the agent. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "rendezvous/values/generation.hpp"

namespace cxxrun::launcher {

/// Variables to set, or to remove when they have no value.
using EnvironmentChanges = std::map<std::string, std::optional<std::string>>;

/// The changes for worker `index` (local rank) of this agent; docs/use/environment.md has the table. The old value of
/// each inherited variable that is replaced or removed is kept under its name with the prefix CXXRUN_. `one_per_task`:
/// srun has started a task for each worker, so the variables are right already. Outside Slurm nothing changes.
[[nodiscard]] EnvironmentChanges slurm_changes(SlurmEnv mode, rendezvous::Generation const& generation,
                                               std::uint32_t index, bool one_per_task, Environment const& inherited);

}  // namespace cxxrun::launcher
