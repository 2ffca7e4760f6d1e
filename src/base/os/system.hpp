// Facts about this machine and this process's limits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// The environment of this process; of a variable that is there twice the first counts, as for getenv.
[[nodiscard]] std::map<std::string, std::string> read_environment();

/// A variable of it, which it has no more then: not for children, in /proc/PID/environ or in a core dump.
[[nodiscard]] std::optional<std::string> take_variable(char const* name);

/// A variable of it; empty when it is not set.
[[nodiscard]] std::string variable(char const* name);

/// Those of the descriptors that this process has.
[[nodiscard]] std::vector<int> open_among(std::vector<int> descriptors);

/// The host's name as the kernel has it.
[[nodiscard]] std::string host_name();
/// The host as a worker names it in messages: CXXRUN_HOST, which cxxrun gives its workers, else host_name().
[[nodiscard]] std::string worker_host_name();
/// The host's name up to the first dot.
[[nodiscard]] std::string short_hostname();
/// Whether this process has a controlling terminal.
[[nodiscard]] bool has_terminal();
/// CPUs this process may run on (sched_getaffinity), ascending; empty when the kernel does not say.
[[nodiscard]] std::vector<std::uint32_t> allowed_cpus();
/// Their number, at least 1.
[[nodiscard]] std::uint32_t usable_cpus();
/// Memory to share, as a descriptor: empty, close-on-exec, not executable, and it can be sealed. None and errno when
/// there is none to be had.
[[nodiscard]] UniqueFd make_memory_file(char const* name);

/// The names in a directory; none when it cannot be read.
[[nodiscard]] std::vector<std::string> entries_of(std::string const& directory);

/// Raises the soft limit on descriptors to the hard one. Call once, before threads.
void raise_nofile_limit();
/// The soft limit as it was before raise_nofile_limit, for the workers; nothing when it was not raised.
[[nodiscard]] std::optional<std::uint64_t> original_nofile_limit();

/// GPUs that a process with this CUDA_VISIBLE_DEVICES (nothing = unset) sees on a machine with `devices` of them.
/// As the CUDA driver counts: up to the first entry that names no device; UUIDs and MIG slices count one. Pure.
[[nodiscard]] std::uint32_t count_gpus(std::optional<std::string_view> visible, std::uint32_t devices);
/// /dev/nvidia0, 1, … that this process may open; what a job's device cgroup denies does not count.
[[nodiscard]] std::uint32_t gpu_devices();
/// The same of Intel's: what renders, and this process may use. A card of two tiles counts once.
[[nodiscard]] std::uint32_t intel_gpus(std::string const& classes = "/sys/class/drm",
                                       std::string const& devices = "/dev/dri");
/// Whether this process may use AMD's GPUs, and there are none of NVIDIA's.
[[nodiscard]] bool amd_gpus();
/// The numbers of NVIDIA's GPUs that are partitioned (MIG).
[[nodiscard]] std::vector<std::uint32_t> partitioned_gpus(
    std::string const& capabilities = "/proc/driver/nvidia/capabilities");

}  // namespace cxxrun::os
