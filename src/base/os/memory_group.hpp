// MemoryGroup: the kernel's counters of memory for the control groups that this process is in. Shell.
#pragma once

#include <string>
#include <vector>

#include "src/base/core/memory_counters.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

/// Opens the files once: the group that a process is in when it starts is the one that Slurm has made for it. What is
/// missing, or of a version that counts otherwise, is left out without a word.
class MemoryGroup {
 public:
  /// `root`: what the paths begin with, for tests.
  explicit MemoryGroup(std::string const& root = "");
  /// Some files of /proc and /sys: about 0.1 ms.
  [[nodiscard]] MemoryCounters read() const;

 private:
  struct Group {
    std::string name;
    UniqueFd limit;
    UniqueFd usage;
    UniqueFd parts;  ///< what the usage is made of
    UniqueFd hits;
  };
  bool unified_ = false;
  UniqueFd kills_;
  UniqueFd machine_;
  std::vector<Group> groups_;  // those that had a limit at the start
};

}  // namespace cxxrun::os
