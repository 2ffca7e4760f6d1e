// Death: why a worker ended, as far as an unprivileged launcher can know, and what helps. Pure.
//
// docs/use/failures.md has a row for each line, and how certain it is; a test compares the two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/failure_signs.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/limits.hpp"

namespace cxxrun::launcher {

/// What the out-of-memory killer has done since the workers were started.
struct MemoryFacts {
  std::optional<std::uint64_t> kills;    ///< in this launcher's control group; nothing: not counted there
  std::optional<std::uint64_t> machine;  ///< on the whole machine
  std::optional<MemoryLimit> reached;    ///< the smallest limit that was hit
  bool operator==(MemoryFacts const&) const = default;
};
[[nodiscard]] MemoryFacts since(MemoryCounters const& before, MemoryCounters const& now);

/// A path as a child process saw it (src/base/os/helper_children.hpp). A child, because a dead file system blocks its
/// readers.
struct PathFacts {
  std::string path;
  bool answered = false;  ///< false: the file system hangs
  int error = 0;          ///< errno
  bool full = false;      ///< no space, or no files left
  bool operator==(PathFacts const&) const = default;
};

struct DeathFacts {
  ExitStatus status;
  int pid = 0;
  bool lease_over = false;    ///< cxxrun's parent process has killed this node's workers
  bool time_used_up = false;  ///< it has had all the CPU time that its hard limit allows
  std::uint64_t peak = 0;     ///< largest resident set in bytes; 0: unknown
  std::uint32_t killed = 1;   ///< workers that died of a SIGKILL not sent by cxxrun, this one included
  std::uint32_t larger = 0;   ///< those of them with a larger peak
  MemoryFacts memory;
  bool has_stdin = false;        ///< it reads cxxrun's standard input
  std::string said;              ///< the end of its stderr
  std::vector<PathFacts> paths;  ///< examined after its death, if needs_probe()
  std::string core_pattern;      ///< /proc/sys/kernel/core_pattern
  bool core_uses_pid = false;    ///< /proc/sys/kernel/core_uses_pid
  Explanation limit;             ///< from explain_limits()
  Explanation gpu;               ///< from explain_xids(), since the start
};

[[nodiscard]] Explanation explain(DeathFacts const& facts);

/// Whether probing the file systems can tell more.
[[nodiscard]] bool needs_probe(ExitStatus const& status, std::string_view said);

/// Whether Slurm has made the control group, in any release.
[[nodiscard]] bool is_of_slurm(std::string const& group);
/// "step 3.0", "job 3" or "step 0 of this Slurm job" for a group that Slurm has made, else "control group /a/b".
[[nodiscard]] std::string group_name(std::string const& group);

}  // namespace cxxrun::launcher
