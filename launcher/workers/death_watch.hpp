// DeathWatch: what this machine knows about why workers die: counters of memory, the kernel's log, the file systems.
// Shell.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/death.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/limits.hpp"
#include "src/base/os/kernel_log.hpp"
#include "src/base/os/memory_group.hpp"
#include "src/base/os/path_probe.hpp"

namespace cxxrun::launcher {

/// A worker that has ended.
struct DeadWorker {
  rendezvous::WorkerExit* exit = nullptr;
  std::uint64_t peak = 0;  ///< bytes of its largest resident set
  bool has_stdin = false;  ///< it has cxxrun's standard input
};

class DeathWatch {
 public:
  /// `root`: what the paths of /proc and of control groups begin with, for tests.
  /// `kills`: how often our parent has killed this node's workers; none: there is no such parent.
  explicit DeathWatch(std::function<std::uint32_t()> kills, std::string const& root = "")
      : group_(root), first_(group_.read()), kills_(std::move(kills)) {}

  /// Workers are about to be started.
  void begin();
  /// What the out-of-memory killer has done in a step of Slurm's, once: the step has failed for Slurm, whatever becomes
  /// of the job. "" as a rule.
  [[nodiscard]] std::string taint();
  /// Counters and limits are read once for the deaths seen together: before the next of them.
  void look_again() { read_ = false; }

  /// Fills in the cause and the advice of `which`, one of `all` that have ended in this generation. Of a success, and
  /// of an end that is ours, it asks nobody anything.
  void explain(DeadWorker const& which, std::vector<DeadWorker> const& all);
  /// Whether a look at the file systems might tell more of some of them.
  [[nodiscard]] static bool needs_probe(std::vector<DeadWorker> const& all);
  /// What the probe of these paths has found.
  void probed(std::vector<std::string> const& paths, std::vector<os::SeenPath> const& seen);

 private:
  void read();

  os::MemoryGroup group_;
  os::KernelLog log_;
  MemoryCounters first_;   // when this process began
  MemoryCounters before_;  // when the generation began
  std::function<std::uint32_t()> kills_;
  std::uint32_t kills_before_ = 0;
  MemoryFacts memory_;
  Limits limits_;
  Explanation gpu_;
  std::vector<PathFacts> paths_;
  bool read_ = false;
  bool told_ = false;
};

}  // namespace cxxrun::launcher
