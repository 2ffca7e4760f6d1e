// Whether this process was started below a worker of another cxxrun, by what that one has left in the environment.
// Pure.
//
// The variables also travel where nobody is below that worker: with sbatch into another job, with srun into another
// step. So the outer cxxrun leaves the job and step that it is in, and they count there alone.
#pragma once

#include <string>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

/// What the outer cxxrun leaves in variables::kJobStep, of its own environment: "<job>.<step>"; "<job>" in a batch
/// script or salloc's shell; "" outside Slurm.
[[nodiscard]] std::string job_step(Environment const& environment);

/// A task of Slurm's is then the outer cxxrun, and this is not one.
[[nodiscard]] bool inside_worker(Environment const& environment);

/// What an inner cxxrun reads options from: without the variables (PET_*) by which the outer one was told of the nodes.
[[nodiscard]] Environment without_outer_options(Environment environment);

}  // namespace cxxrun::launcher
