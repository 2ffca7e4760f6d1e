// Death: why a worker ended, as far as a launcher without privileges can know, and what helps. Pure.
//
// docs/use/failures.md has a row for each line that is said here, and how sure it is; a test compares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/memory_counters.hpp"

namespace cxxrun::launcher {

/// What the out-of-memory killer has done since the workers were started.
struct MemoryFacts {
  std::optional<std::uint64_t> kills;    ///< in this launcher's group; nothing: it is not counted there
  std::optional<std::uint64_t> machine;  ///< on the whole machine
  std::optional<MemoryLimit> reached;    ///< the limit at which memory was refused, the innermost one
  bool operator==(MemoryFacts const&) const = default;
};
[[nodiscard]] MemoryFacts since(MemoryCounters const& before, MemoryCounters const& now);

/// What a child saw of a path (src/base/os/path_probe.hpp): a file system that is gone blocks whoever looks.
struct PathFacts {
  std::string path;
  bool answered = false;  ///< false: it hangs
  int error = 0;          ///< errno
  bool full = false;      ///< no space, or no files left
  bool operator==(PathFacts const&) const = default;
};

/// One line each; "" when nothing is known.
struct Explanation {
  std::string cause;
  std::string advice;
  bool of_job = false;  ///< the job's own doing, which no other node would have spared it
  bool operator==(Explanation const&) const = default;
};

struct DeathFacts {
  ExitStatus status;
  int pid = 0;
  bool lease_over = false;   ///< cxxrun's parent process has killed this node's workers
  std::uint64_t peak = 0;    ///< bytes of its largest resident set; 0: unknown
  std::uint32_t killed = 1;  ///< workers that died of a SIGKILL that is not ours, this one included
  std::uint32_t larger = 0;  ///< of these, those with a larger peak
  MemoryFacts memory;
  bool has_stdin = false;        ///< it has cxxrun's standard input
  std::string said;              ///< the end of its stderr
  std::vector<PathFacts> paths;  ///< looked at after it, when needs_probe() says so
  std::string core_pattern;      ///< /proc/sys/kernel/core_pattern
  Explanation limit;             ///< that its stderr speaks of (limit_signs.hpp)
  Explanation gpu;               ///< what the NVIDIA driver has said since the start (xid.hpp)
};

[[nodiscard]] Explanation explain(DeathFacts const& facts);

/// Whether a look at the file systems can tell more.
[[nodiscard]] bool needs_probe(ExitStatus const& status, std::string_view said);

/// The sure signs in a worker's stderr.
struct Said {
  std::string helper;          ///< pid of a DataLoader worker that died
  bool helper_killed = false;  ///< of SIGKILL; else of SIGBUS
  bool disk_full = false;      ///< or the quota there
  bool over_quota = false;     ///< the quota
  std::string disk_path;       ///< the path that its line names
  bool io_error = false;       ///< "Input/output error", "Stale file handle", …
};
[[nodiscard]] Said signs_in(std::string_view text);

/// Whether Slurm has made that control group, of whatever release.
[[nodiscard]] bool is_of_slurm(std::string const& group);
/// "step 3.0", "job 3", "step 0 of this Slurm job" of a group that Slurm has made, else "control group /a/b".
[[nodiscard]] std::string group_name(std::string const& group);
/// "512 KiB", "98 MiB", "7.5 GiB"
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace cxxrun::launcher
