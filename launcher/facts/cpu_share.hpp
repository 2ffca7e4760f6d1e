// How many CPUs a task of Slurm's has for its workers, and whether that is what was asked for. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

struct CpuUse {
  std::uint32_t usable = 1;   ///< CPUs that this process may run on
  std::uint32_t workers = 1;  ///< of this process
  std::uint32_t tasks = 1;    ///< of the step, on this node
};

/// The CPUs to count with: those it may use, and its part of them where Slurm has not bound the tasks of a node.
[[nodiscard]] std::uint32_t cpus_of_task(Environment const& environment, CpuUse const& use);

/// One line for each thing that slows workers down, with its remedy: fewer CPUs than the job has for the task or than
/// workers, OMP_NUM_THREADS of too many threads, tasks that share CPUs. None outside Slurm.
[[nodiscard]] std::vector<std::string> cpu_warnings(Environment const& environment, CpuUse const& use);

}  // namespace cxxrun::launcher
