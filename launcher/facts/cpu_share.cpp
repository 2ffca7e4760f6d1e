#include "launcher/facts/cpu_share.hpp"

#include <algorithm>

#include "launcher/facts/outer_launcher.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::uint64_t kMost = 1U << 20U;
// Not inherited from the job script since Slurm 22.05: srun(1), --cpus-per-task.
constexpr char const* kRemedy = "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun, or give srun -c N";

/// 0 if the variable is not set or invalid.
std::uint32_t number_of(Environment const& environment, char const* name) {
  auto const value = parse_unsigned(value_of(environment, name), 1, kMost);
  return value ? static_cast<std::uint32_t>(*value) : 0;
}

/// Whether Slurm left the tasks of the node unbound, so that each may use all CPUs.
bool tasks_share(Environment const& environment, CpuUse const& use) {
  auto const on_node = number_of(environment, "SLURM_CPUS_ON_NODE");
  auto const asked = number_of(environment, "SLURM_CPUS_PER_TASK");
  return use.tasks > 1 && ((on_node > 0 && use.usable >= on_node) || (asked > 0 && use.usable > asked));
}

}  // namespace

std::uint32_t cpus_of_task(Environment const& environment, CpuUse const& use) {
  if (!tasks_share(environment, use)) {
    return use.usable;
  }
  auto const asked = number_of(environment, "SLURM_CPUS_PER_TASK");
  return std::max(1U, asked > 0 ? std::min(asked, use.usable) : use.usable / use.tasks);
}

std::vector<std::string> cpu_warnings(Environment const& environment, CpuUse const& use) {
  if (value_of(environment, "SLURM_JOB_ID").empty() || inside_worker(environment)) {
    return {};
  }
  std::vector<std::string> lines;
  auto const asked = number_of(environment, "SLURM_CPUS_PER_TASK");
  auto const own = cpus_of_task(environment, use);
  if (use.usable < asked) {
    lines.push_back(counted(use.workers, "worker") + " on " + counted(use.usable, "CPU") + " of the " +
                    std::to_string(asked) + " that the job has for this task (SLURM_CPUS_PER_TASK): " + kRemedy +
                    "; where srun is called below another srun, unset SLURM_CPU_BIND first");
  } else if (use.usable < use.workers) {
    lines.push_back(counted(use.workers, "worker") + " on " + counted(use.usable, "CPU") +
                    ": #SBATCH --cpus-per-task=N asks for more, and " + kRemedy);
  }
  auto const threads = number_of(environment, "OMP_NUM_THREADS");
  if (threads > 0 && std::uint64_t{threads} * use.workers > own) {
    lines.push_back("OMP_NUM_THREADS=" + std::to_string(threads) + " in " + counted(use.workers, "worker") + ": " +
                    std::to_string(std::uint64_t{threads} * use.workers) + " threads on the " + counted(own, "CPU") +
                    " of this task; unset it, and each worker gets " +
                    std::to_string(std::max(1U, own / std::max(1U, use.workers))));
  } else if (threads == 0 && own < use.usable) {
    lines.push_back("the " + std::to_string(use.tasks) + " tasks of this node share " + counted(use.usable, "CPU") +
                    ": OMP_NUM_THREADS is for " + std::to_string(own) +
                    "; srun --cpu-bind=cores binds each to its own");
  }
  return lines;
}

}  // namespace cxxrun::launcher
