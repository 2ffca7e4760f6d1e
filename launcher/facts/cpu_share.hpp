// How many CPUs a Slurm task has for its workers, and whether these are the CPUs that were asked for. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

struct CpuUse {
  std::uint32_t usable = 1;   ///< CPUs that this process may run on
  std::uint32_t workers = 1;  ///< that this process starts
  std::uint32_t tasks = 1;    ///< of the step on this node
};

/// The CPUs that this task may count on: those that it may use, or its share of them if Slurm did not bind the tasks of
/// the node.
[[nodiscard]] std::uint32_t cpus_of_task(Environment const& environment, CpuUse const& use);

/// One line, with the remedy, for each thing that slows workers down: fewer CPUs than the task was given or than it has
/// workers, an OMP_NUM_THREADS that is too large, tasks that share CPUs. None outside Slurm.
[[nodiscard]] std::vector<std::string> cpu_warnings(Environment const& environment, CpuUse const& use);

}  // namespace cxxrun::launcher
