#include "launcher/facts/outer_launcher.hpp"

#include "src/base/core/variables.hpp"

namespace cxxrun::launcher {

std::string job_step(Environment const& environment) {
  auto const step = value_of(environment, "SLURM_STEP_ID");
  return value_of(environment, "SLURM_JOB_ID") + (step.empty() ? "" : "." + step);
}

bool inside_worker(Environment const& environment) {
  auto const here = job_step(environment);  // "" also with --slurm-env clear
  return !value_of(environment, variables::kRunId).empty() &&
         (here.empty() || here == value_of(environment, variables::kJobStep));
}

Environment without_outer_options(Environment environment) {
  if (inside_worker(environment)) {
    for (char const* const name :
         {"PET_NNODES", "PET_NODE_RANK", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_RDZV_CONF",
          "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_LOCAL_ADDR", "PET_JOIN"}) {
      environment.erase(name);
    }
  }
  return environment;
}

}  // namespace cxxrun::launcher
