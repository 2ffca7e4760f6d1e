// Facts about this machine and this process: environment, names, CPUs, GPUs, directories, libraries; and memory. Shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <vector>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// The environment of this process. Of a variable that is set twice the first counts, as for getenv.
[[nodiscard]] std::map<std::string, std::string> read_environment();

/// Takes a variable out of the environment, so that it is not in children, /proc/PID/environ or a core dump.
[[nodiscard]] std::optional<std::string> take_variable(char const* name);

/// A variable of the environment; "" when it is not set.
[[nodiscard]] std::string variable(char const* name);

/// The descriptors among these that are open.
[[nodiscard]] std::vector<int> open_among(std::vector<int> descriptors);

/// The kernel's name of this host.
[[nodiscard]] std::string host_name();
/// The host's name in messages of a worker: CXXRUN_HOST, which cxxrun sets, else host_name().
[[nodiscard]] std::string worker_host_name();
/// The host's name up to the first dot.
[[nodiscard]] std::string short_hostname();
/// Whether this process has a controlling terminal.
[[nodiscard]] bool has_terminal();
/// CPUs this process may run on (sched_getaffinity), ascending; empty when the kernel does not say.
[[nodiscard]] std::vector<std::uint32_t> allowed_cpus();
/// Their number, at least 1.
[[nodiscard]] std::uint32_t usable_cpus();
/// A memfd: empty, close-on-exec, not executable, sealable. None with errno on failure.
[[nodiscard]] UniqueFd make_memory_file(char const* name);

/// Memory of mmap(2), unmapped with its owner.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(void* memory) const noexcept { munmap(memory, bytes); }
};
using Mapping = std::unique_ptr<void, Unmap>;
/// Maps memory to read and write, at an address that the kernel chooses. Null with errno on failure.
[[nodiscard]] inline Mapping map_memory(std::size_t bytes, int flags, int fd = -1, off_t offset = 0) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);
  return {memory == MAP_FAILED ? nullptr : memory, {bytes}};
}

/// Whether this process may make a file of that size; false with EFBIG. The kernel does not only fail a call beyond the
/// limit (RLIMIT_FSIZE): it sends SIGXFSZ, which kills.
[[nodiscard]] bool may_write_to(std::uint64_t bytes);

/// The names in a directory, with "." and ".."; empty when it cannot be read.
[[nodiscard]] std::vector<std::string> entries_of(std::string const& directory);

/// Raises the soft limit on descriptors to the hard one. Call once, before threads.
void raise_nofile_limit();
/// The soft limit before raise_nofile_limit, for the workers; nothing when it was not raised.
[[nodiscard]] std::optional<std::uint64_t> original_nofile_limit();

/// The number of GPUs that a process with this CUDA_VISIBLE_DEVICES (nothing: unset) sees on a machine with `devices`.
/// Counts as the CUDA driver does: up to the first entry that names no device; a UUID or a MIG slice counts one. Pure.
[[nodiscard]] std::uint32_t count_gpus(std::optional<std::string_view> visible, std::uint32_t devices);
/// The number of /dev/nvidia0, 1, … that this process may open; a job's device cgroup may deny some.
[[nodiscard]] std::uint32_t gpu_devices();
/// The number of Intel GPUs that render and that this process may use. A card of two tiles counts once.
[[nodiscard]] std::uint32_t intel_gpus(std::string const& classes = "/sys/class/drm",
                                       std::string const& devices = "/dev/dri");
/// Whether this process may use AMD's GPUs, and the machine has none of NVIDIA's.
[[nodiscard]] bool amd_gpus();
/// The numbers of the NVIDIA GPUs that are partitioned (MIG).
[[nodiscard]] std::vector<std::uint32_t> partitioned_gpus(
    std::string const& capabilities = "/proc/driver/nvidia/capabilities");

/// Looks `name` up in a library that dlopen() has opened. False if it is not there.
template <class Function>
[[nodiscard]] bool find_function(void* library, char const* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));  // NOLINT: how dlsym gives functions
  return function != nullptr;
}

}  // namespace cxxrun::os
