// What this machine's CPUs and GPUs are and where: read once, for binding workers. Shell; hwloc stays behind it.
//
// libhwloc is loaded only when workers are to be bound, without its plugins and without looking at devices: about a
// millisecond for a few CPUs, some 30 µs more per CPU. Without the library nothing is bound.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/place/cpu_plan.hpp"

namespace cxxrun::launcher {

/// The packages, NUMA nodes, caches and cores of this machine as hwloc reports them; an error says what is missing.
/// Blocks; call it once, from one thread.
[[nodiscard]] Result<Machine> read_machine();
/// Why libhwloc cannot be used, of what the loader said: it is missing, or it is broken, as where a library that it
/// needs is missing. Pure.
[[nodiscard]] std::string why_not_loaded(std::string const& said);
/// The NVIDIA GPUs that this process may open, from /proc/driver/nvidia and sysfs below `root` ("" = the real ones).
[[nodiscard]] std::vector<Gpu> read_gpus(std::string const& root);

/// Where the workers of this node are to run. Call it before the process has threads: it keeps hwloc's plugins out by
/// an environment variable of this process. `visible_gpus` is CUDA_VISIBLE_DEVICES. Blocks.
[[nodiscard]] CpuPlan find_cpus(CpuMode mode, std::uint32_t workers, std::optional<std::string> const& visible_gpus);
/// The same on a thread of its own, while the agents meet; without threads left, when it is asked for. What is returned
/// gives the plan, once: it blocks until that is there, at most 1 s; then nothing is bound and the note says so.
[[nodiscard]] std::function<CpuPlan()> start_finding_cpus(CpuMode mode, std::uint32_t workers,
                                                          std::optional<std::string> const& visible_gpus);

}  // namespace cxxrun::launcher
