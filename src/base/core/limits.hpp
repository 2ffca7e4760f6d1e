// Limits: what keeps a process from one more process, thread, descriptor or byte, and what helps. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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
  std::uint64_t mapped = 0;       ///< bytes of its address space that are taken
  std::vector<TaskGroup> groups;  ///< its own group first
  bool privileged = false;        ///< root: `tasks` does not hold
  bool of_slurm = false;          ///< in a job of Slurm, which sets limits, too
  bool operator==(Limits const&) const = default;
};

/// The limit that explains why the system refused something with errno `error`, and what helps: both begin small and
/// have no end mark. Empty where no limit explains it. Total.
struct ReachedLimit {
  std::string limit;
  std::string remedy;
  bool operator==(ReachedLimit const&) const = default;
};
[[nodiscard]] ReachedLimit reached_limit(int error, Limits const& limits);

/// One line: "WHAT: ERRNO'S TEXT: LIMIT; REMEDY". Without a limit that explains it, where to look. Total.
[[nodiscard]] std::string explain_refusal(std::string const& what, int error, Limits const& limits);

/// What helps against a limit that nobody needs, the one that `ulimit -LETTER` shows.
[[nodiscard]] std::string lifting(char letter);

/// What helps when a file below `path` cannot be written: a full disk, a quota, the limit on the size of files; "" for
/// other reasons. Total.
[[nodiscard]] std::string room_for(std::string const& path, int error);

}  // namespace cxxrun
