// What this machine's CPUs and GPUs are and where: read once, for binding workers. Shell; hwloc stays behind it.
//
// libhwloc is loaded only when workers are to be bound, without its plugins and without looking at devices: about a
// millisecond for a few CPUs, some 30 µs more per CPU. Without the library nothing is bound.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/place/cpu_plan.hpp"

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

/// The packages, NUMA nodes, caches and cores of this machine as hwloc reports them; an error says what is missing.
/// Blocks; call it once, from one thread.
[[nodiscard]] Result<Machine> read_machine();
/// The NVIDIA GPUs that this process may open, from /proc/driver/nvidia and sysfs below `root` ("" = the real ones).
[[nodiscard]] std::vector<Gpu> read_gpus(std::string const& root);

/// Finds the CPUs of a node's workers on a thread of its own, while the agents meet. Not thread-safe.
class CpuFinder {
 public:
  /// Call it before the process has threads: it keeps hwloc's plugins out by an environment variable of this process.
  /// `visible_gpus` is CUDA_VISIBLE_DEVICES. Nothing is read yet.
  CpuFinder(CpuMode mode, std::uint32_t workers, std::optional<std::string> visible_gpus);
  ~CpuFinder();
  CpuFinder(CpuFinder const&) = delete;
  CpuFinder& operator=(CpuFinder const&) = delete;

  /// Starts the thread; without threads left the work is done by `take`.
  void begin();
  /// The plan. Blocks until it is there, at most 5 s; then nothing is bound and the note says so.
  [[nodiscard]] CpuPlan take();

 private:
  struct Task;
  std::shared_ptr<Task> task_;  // shared with the thread, which may have to be left behind
  std::unique_ptr<os::BoundedThread> thread_;
};

}  // namespace cxxrun::launcher
