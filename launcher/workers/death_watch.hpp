// DeathWatch: collects what this machine knows about why workers died: memory counters, the kernel log, the file
// systems. Shell.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/report/death.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/limits.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/helper_children.hpp"
#include "src/base/os/process_limits.hpp"

namespace cxxrun::launcher {

/// A worker that has ended.
struct DeadWorker {
  rendezvous::WorkerExit* exit = nullptr;
  std::uint64_t peak = 0;  ///< largest resident set, in bytes
  Millis busy{0};          ///< see os::EndedChild
  bool has_stdin = false;  ///< its standard input was cxxrun's
};

class DeathWatch {
 public:
  /// `root`: prefix of the paths of /proc and of control groups, for tests.
  explicit DeathWatch(std::string const& root = "") : group_(root), first_(group_.read()) {}

  /// Remembers the counters. Call it before workers are started. `kills`: how often our parent has killed this node's
  /// workers so far.
  void begin(std::uint32_t kills);
  /// A warning after the out-of-memory killer has acted in this Slurm step, once: for Slurm the step has failed, even
  /// if the job succeeds. "" otherwise.
  [[nodiscard]] std::string taint();
  /// Counters and limits are read once for deaths that are handled together. The next explain() reads them again.
  void refresh() { read_ = false; }

  /// Fills in the cause and the advice of `which`, one of `all` workers that have ended in this generation. Does
  /// nothing for a success or for an exit that is ours. `kills`: as in begin(), by now.
  void explain(DeadWorker const& which, std::vector<DeadWorker> const& all, std::uint32_t kills);
  /// Whether a probe of the file systems may explain some of these deaths.
  [[nodiscard]] static bool needs_probe(std::vector<DeadWorker> const& all);
  /// Takes the result of a probe of these paths.
  void probed(std::vector<std::string> const& paths, std::vector<os::SeenPath> const& seen);

 private:
  void read();

  os::MemoryGroup group_;
  os::KernelLog log_;
  MemoryCounters first_;   // at the start of this process
  MemoryCounters before_;  // at the start of the generation
  std::uint32_t kills_before_ = 0;
  MemoryFacts memory_;
  Limits limits_;
  Explanation gpu_;
  std::vector<PathFacts> paths_;
  bool read_ = false;
  bool taint_told_ = false;
};

}  // namespace cxxrun::launcher
