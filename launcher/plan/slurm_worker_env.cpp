#include "launcher/plan/slurm_worker_env.hpp"

#include <algorithm>

#include "src/core/text.hpp"

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

/// The CPUs of the task, shared out. SLURM_TRES_PER_TASK (since Slurm 23.11) says the same again, and srun refuses to
/// start when the two disagree.
void share_cpus(Generation const& generation, Environment const& inherited, EnvironmentChanges& changes) {
  auto const cpus = parse_unsigned(value_of(inherited, "SLURM_CPUS_PER_TASK"), 1, UINT32_MAX);
  if (cpus && generation.local_size > 1) {
    changes["SLURM_CPUS_PER_TASK"] = std::to_string(std::max<std::uint64_t>(1, *cpus / generation.local_size));
    changes["SLURM_TRES_PER_TASK"] = std::nullopt;
  }
}

EnvironmentChanges as_task(Generation const& generation, std::uint32_t index, Environment const& inherited) {
  std::string const world = std::to_string(generation.world_size);
  EnvironmentChanges changes{{"SLURM_PROCID", std::to_string(generation.rank_base + index)},
                             {"SLURM_LOCALID", std::to_string(index)},
                             {"SLURM_NODEID", std::to_string(generation.group_rank)},
                             {"SLURM_NTASKS", world},
                             {"SLURM_NPROCS", world},
                             {"SLURM_NNODES", std::to_string(generation.group_size)},
                             {"SLURM_GTIDS", ranks_of_this_node(generation)},
                             {"SLURM_NTASKS_PER_NODE", tasks_of_each_node(generation)},
                             {"SLURM_TASKS_PER_NODE", unless_empty(generation.local_sizes)}};
  if (inherited.contains("SLURM_STEP_ID")) {  // a batch script is in no step
    changes["SLURM_STEP_NUM_TASKS"] = world;
    changes["SLURM_STEP_NUM_NODES"] = std::to_string(generation.group_size);
    changes["SLURM_STEP_TASKS_PER_NODE"] = unless_empty(generation.local_sizes);
    changes["SLURM_STEP_NODELIST"] = unless_empty(generation.hosts);
  }
  share_cpus(generation, inherited, changes);
  return changes;
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
  } else if (mode == SlurmEnv::per_worker && !one_per_task && inherited.contains("SLURM_PROCID")) {
    changes = as_task(generation, index, inherited);
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
