// The CPUs and GPUs of this machine and where they are, read once to bind workers. The only user of hwloc. Shell.
//
// libhwloc is loaded only if workers are to be bound, without plugins and device discovery: that takes about 1 ms and
// 30 µs per CPU. Without the library nothing is bound.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/place/cpu_plan.hpp"

namespace cxxrun::launcher {

/// The CPUs of this machine with their packages, NUMA nodes, caches and cores, as hwloc reports them. An error says
/// what is missing. Blocks; call it once, from one thread.
[[nodiscard]] Result<Machine> read_machine();
/// Turns the message of dlerror() into the reason why libhwloc cannot be used: it is missing, or it cannot be loaded,
/// for example because a library that it needs is missing. Pure.
[[nodiscard]] std::string why_not_loaded(std::string const& said);
/// The NVIDIA GPUs that this process may open, from /proc/driver/nvidia and sysfs below `root` ("" = the real ones).
[[nodiscard]] std::vector<Gpu> read_gpus(std::string const& root);

/// The CPUs for the workers of this node. Call it before the process has threads: it sets an environment variable that
/// disables hwloc's plugins. `visible_gpus` is CUDA_VISIBLE_DEVICES. Blocks.
[[nodiscard]] CpuPlan find_cpus(CpuMode mode, std::uint32_t workers, std::optional<std::string> const& visible_gpus);
/// Starts the same on a thread; if none can be started, the returned function does the work. Call that function once:
/// it blocks until the plan is ready, at most 1 s. After that nothing is bound, and the note says so.
[[nodiscard]] std::function<CpuPlan()> start_finding_cpus(CpuMode mode, std::uint32_t workers,
                                                          std::optional<std::string> const& visible_gpus);

}  // namespace cxxrun::launcher
