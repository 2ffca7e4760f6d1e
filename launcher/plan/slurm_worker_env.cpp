#include "launcher/plan/slurm_worker_env.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

namespace {

using rendezvous::Generation;

std::optional<std::string> unless_empty(std::string const& text) {
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::optional<std::string> tasks_of_each_node(Generation const& generation) {
  bool const known = !generation.local_sizes.empty();
  bool const alike = generation.local_sizes.find(',') == std::string::npos;
  return known && alike ? std::optional<std::string>(std::to_string(generation.local_size)) : std::nullopt;
}

std::string ranks_of_this_node(Generation const& generation) {
  std::string ranks;
  for (std::uint32_t i = 0; i < generation.local_size; ++i) {
    ranks += (i == 0 ? "" : ",") + std::to_string(generation.rank_base + i);
  }
  return ranks;
}

/// The variables that srun and mpirun only set for a task, and do not read.
EnvironmentChanges task_variables(Generation const& generation, std::uint32_t index, Environment const& inherited) {
  EnvironmentChanges changes{{"SLURM_PROCID", std::to_string(generation.rank_base + index)},
                             {"SLURM_LOCALID", std::to_string(index)},
                             {"SLURM_NODEID", std::to_string(generation.group_rank)},
                             {"SLURM_GTIDS", ranks_of_this_node(generation)}};
  if (inherited.contains("SLURM_STEP_ID")) {  // a batch script is not in a step
    changes["SLURM_STEP_NUM_TASKS"] = std::to_string(generation.world_size);
    changes["SLURM_STEP_NUM_NODES"] = std::to_string(generation.group_size);
    changes["SLURM_STEP_TASKS_PER_NODE"] = unless_empty(generation.local_sizes);
    changes["SLURM_STEP_NODELIST"] = unless_empty(generation.hosts);
  }
  return changes;
}

/// Adds the variables that srun reads as options (INPUT ENVIRONMENT VARIABLES in srun(1) of Slurm 26.05), that sbatch
/// passes to the srun of its script, and that mpirun takes as the size of the job. Only for SlurmEnv::all: with these
/// variables an srun inside a worker starts as many tasks as the job has workers.
void add_srun_options(Generation const& generation, Environment const& inherited, EnvironmentChanges& changes) {
  changes["SLURM_NTASKS"] = changes["SLURM_NPROCS"] = std::to_string(generation.world_size);
  changes["SLURM_NNODES"] = std::to_string(generation.group_size);
  changes["SLURM_NTASKS_PER_NODE"] = tasks_of_each_node(generation);
  changes["SLURM_TASKS_PER_NODE"] = unless_empty(generation.local_sizes);
  auto const cpus = parse_unsigned(value_of(inherited, "SLURM_CPUS_PER_TASK"), 1, UINT32_MAX);
  if (cpus && generation.local_size > 1) {
    changes["SLURM_CPUS_PER_TASK"] = std::to_string(std::max<std::uint64_t>(1, *cpus / generation.local_size));
    changes["SLURM_TRES_PER_TASK"] = std::nullopt;  // has the same number since 23.11; srun refuses to find both
  }
}

EnvironmentChanges without_slurm(Environment const& inherited) {
  EnvironmentChanges changes;
  for (auto const& [name, value] : inherited) {
    if (name.starts_with("SLURM_") || name.starts_with("SLURMD_")) {
      changes[name] = std::nullopt;
    }
  }
  return changes;
}

}  // namespace

EnvironmentChanges slurm_changes(SlurmEnv mode, Generation const& generation, std::uint32_t index, bool one_per_task,
                                 Environment const& inherited) {
  EnvironmentChanges changes;
  if (mode == SlurmEnv::clear) {
    changes = without_slurm(inherited);
  } else if (mode != SlurmEnv::keep && !one_per_task && inherited.contains("SLURM_PROCID")) {
    changes = task_variables(generation, index, inherited);
    if (mode == SlurmEnv::all) {
      add_srun_options(generation, inherited, changes);
    }
  }
  EnvironmentChanges originals;
  for (auto const& [name, value] : changes) {
    if (auto const original = inherited.find(name); original != inherited.end()) {
      originals.emplace("CXXRUN_" + name, original->second);
    }
  }
  changes.merge(originals);
  return changes;
}

}  // namespace cxxrun::launcher
