// Limits on a process's resources: resource limits, control groups, and what to do about a limit that is reached. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxxrun {

/// A limit of setrlimit(2); nothing: unlimited.
struct Limit {
  std::optional<std::uint64_t> soft;
  std::optional<std::uint64_t> hard;
  bool operator==(Limit const&) const = default;
};

/// A control group with a limit on processes and threads.
struct TaskGroup {
  std::string group;  ///< its path in the hierarchy
  std::uint64_t most = 0;
  std::uint64_t now = 0;
  bool operator==(TaskGroup const&) const = default;
};

/// The limits of one process.
struct Limits {
  Limit files;                    ///< descriptors
  Limit tasks;                    ///< processes and threads of its user
  Limit file_size;                ///< bytes
  Limit address_space;            ///< bytes
  Limit data;                     ///< bytes
  Limit locked;                   ///< bytes of locked memory
  Limit cpu_time;                 ///< seconds of each process
  std::uint64_t mapped = 0;       ///< bytes of its address space in use
  std::vector<TaskGroup> groups;  ///< its own group first
  bool privileged = false;        ///< root: `tasks` does not apply
  bool of_slurm = false;          ///< in a job of Slurm, which also sets limits
  bool operator==(Limits const&) const = default;
};

/// The limit that explains why the system refused something with errno `error`, and a remedy. Both begin in lower case
/// and have no full stop. Empty if no limit explains it. Total.
struct ReachedLimit {
  std::string limit;
  std::string remedy;
  bool operator==(ReachedLimit const&) const = default;
};
[[nodiscard]] ReachedLimit reached_limit(int error, Limits const& limits);

/// One line: "WHAT: ERRNO'S TEXT: LIMIT; REMEDY". If no limit explains it, the line says where to look. Total.
[[nodiscard]] std::string explain_refusal(std::string const& what, int error, Limits const& limits);

/// How to remove the limit that `ulimit -LETTER` shows, for limits that are of no use.
[[nodiscard]] std::string lifting(char letter);

/// The remedy when a file below `path` cannot be written: for a full disk, a quota, or the limit on the size of files.
/// "" for other reasons. Total.
[[nodiscard]] std::string room_for(std::string const& path, int error);

/// A control group with a limit on memory: the process's own group, or one above it.
struct MemoryLimit {
  std::string group;  ///< its path in the hierarchy: "/slurm/uid_0/job_3/step_0"
  std::uint64_t bytes = 0;
  std::uint64_t usage = 0;  ///< without file pages, which the kernel reclaims when memory is needed
  std::uint64_t hits = 0;   ///< how often memory was refused at this limit
  bool operator==(MemoryLimit const&) const = default;
};

/// What the kernel counts for the control groups of a process.
struct MemoryCounters {
  std::optional<std::uint64_t> kills;    ///< processes killed for lack of memory in the process's own group
  std::optional<std::uint64_t> machine;  ///< the same, on the whole machine
  std::vector<MemoryLimit> limits;       ///< its own group first
  bool operator==(MemoryCounters const&) const = default;
};

/// The control groups of a process.
struct GroupHierarchy {
  bool unified = false;  ///< version 2
  std::string mount;     ///< directory of the topmost group that is visible
  std::string top;       ///< that group's path
  std::vector<std::string>
      below;  ///< directories below `mount`, the process's own group first, each "/a/b"; the last is ""
  bool operator==(GroupHierarchy const&) const = default;
};

/// Finds them in the texts of /proc/self/cgroup and /proc/self/mountinfo: in version 1 if it has the controller
/// ("memory"), else in version 2. Nothing if neither is mounted, or the process's group is outside the mount. Total.
[[nodiscard]] std::optional<GroupHierarchy> find_groups(std::string_view cgroup, std::string_view mountinfo,
                                                        std::string_view controller);

/// The number in the line "KEY NUMBER". Total.
[[nodiscard]] std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view key);
/// Reads memory.max or memory.limit_in_bytes. Nothing for "max", and for the huge number that version 1 has instead.
/// Total.
[[nodiscard]] std::optional<std::uint64_t> limit_in(std::string_view text);

}  // namespace cxxrun
