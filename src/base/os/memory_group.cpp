#include "src/base/os/memory_group.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::os {
namespace {

UniqueFd open_to_read(std::string const& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

/// From its start; "" when it cannot be read. Such a file gives all it has to one long read.
std::string text_of(UniqueFd const& file) {
  std::array<char, 16384> text{};
  auto const got = file ? retried([&] { return ::pread(file.get(), text.data(), text.size(), 0); }) : 0;
  return {text.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

/// Bytes of files in memory.stat, those of /dev/shm not among them. Version 1 has those of the groups below apart.
std::uint64_t file_pages(std::string const& parts, bool unified) {
  auto const of = [&](char const* key) { return counter_in(parts, unified ? key : "total_" + std::string(key)); };
  return of("inactive_file").value_or(0) + of("active_file").value_or(0);
}

}  // namespace

MemoryGroup::MemoryGroup(std::string const& root) : machine_(open_to_read(root + "/proc/vmstat")) {
  auto const found =
      find_groups(read_text(root + "/proc/self/cgroup"), read_text(root + "/proc/self/mountinfo"), "memory");
  if (!found) {
    return;
  }
  unified_ = found->unified;
  std::string const base = root + found->mount;
  // Version 1 counts a kill in the group of the killed process alone; version 2 in the groups above, too.
  kills_ = open_to_read(base + found->below.front() + (unified_ ? "/memory.events" : "/memory.oom_control"));
  for (auto const& below : found->below) {
    std::string const at = base + below;
    Group group{found->top + below, open_to_read(at + (unified_ ? "/memory.max" : "/memory.limit_in_bytes")),
                open_to_read(at + (unified_ ? "/memory.current" : "/memory.usage_in_bytes")),
                open_to_read(at + "/memory.stat"),
                open_to_read(at + (unified_ ? "/memory.events.local" : "/memory.failcnt"))};
    if (limit_in(text_of(group.limit))) {
      groups_.push_back(std::move(group));
    }
  }
}

MemoryCounters MemoryGroup::read() const {
  MemoryCounters counters;
  counters.kills = counter_in(text_of(kills_), "oom_kill");
  counters.machine = counter_in(text_of(machine_), "oom_kill");
  for (auto const& group : groups_) {
    auto const limit = limit_in(text_of(group.limit));
    std::string const hits = text_of(group.hits);
    auto const usage = number_in<std::uint64_t>(trim(text_of(group.usage))).value_or(0);
    if (limit) {
      counters.limits.push_back(
          {group.name, *limit, usage - std::min(usage, file_pages(text_of(group.parts), unified_)),
           (unified_ ? counter_in(hits, "oom") : number_in<std::uint64_t>(trim(hits))).value_or(0)});
    }
  }
  return counters;
}

}  // namespace cxxrun::os
