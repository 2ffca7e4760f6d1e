// MemoryCounters: what the kernel counts of the control groups that a process is in, and where it says so. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxxrun {

/// A control group with a limit on memory: the process's own one, or one above it.
struct MemoryLimit {
  std::string group;  ///< its path in the hierarchy: "/slurm/uid_0/job_3/step_0"
  std::uint64_t bytes = 0;
  std::uint64_t usage = 0;  ///< without pages of files, which the kernel takes back when somebody needs memory
  std::uint64_t hits = 0;   ///< how often memory was refused at this limit
  bool operator==(MemoryLimit const&) const = default;
};

struct MemoryCounters {
  std::optional<std::uint64_t> kills;    ///< by the out-of-memory killer, in the process's own group
  std::optional<std::uint64_t> machine;  ///< the same, on the whole machine
  std::vector<MemoryLimit> limits;       ///< of the own group first
  bool operator==(MemoryCounters const&) const = default;
};

/// The control groups of a process.
struct GroupHierarchy {
  bool unified = false;            ///< version 2
  std::string mount;               ///< directory of the topmost group that can be seen
  std::string top;                 ///< that group's path
  std::vector<std::string> below;  ///< directories below it, the process's own group first, each "/a/b"; last ""
  bool operator==(GroupHierarchy const&) const = default;
};

/// From the texts of /proc/self/cgroup and /proc/self/mountinfo: version 1 where it has the controller ("memory"),
/// else version 2. Nothing where neither is mounted, or the process's group lies outside what is mounted. Total.
[[nodiscard]] std::optional<GroupHierarchy> find_groups(std::string_view cgroup, std::string_view mountinfo,
                                                        std::string_view controller);

/// The number behind `key` and a blank at the start of a line. Total.
[[nodiscard]] std::optional<std::uint64_t> counter_in(std::string_view text, std::string_view key);
/// memory.max or memory.limit_in_bytes; nothing for "max", and for version 1's number that stands for it. Total.
[[nodiscard]] std::optional<std::uint64_t> limit_in(std::string_view text);

}  // namespace cxxrun
