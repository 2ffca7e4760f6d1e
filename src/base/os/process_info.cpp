#include "src/base/os/process_info.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <unistd.h>

#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::os {
namespace {

std::string proc(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

std::vector<pid_t> numbered_entries(std::string const& path) {
  std::vector<pid_t> numbers;
  for (std::string const& name : entries_of(path)) {
    if (auto const number = number_in<pid_t>(name)) {
      numbers.push_back(*number);
    }
  }
  return numbers;
}

// For kernels without CONFIG_PROC_CHILDREN.
std::vector<pid_t> children_by_scan(pid_t pid) {
  std::vector<pid_t> children;
  for (pid_t const candidate : numbered_entries("/proc")) {
    auto const stat = read_stat(candidate);
    if (stat && stat->parent == pid) {
      children.push_back(candidate);
    }
  }
  return children;
}

// Whether the mask after `key` has the signal's bit.
bool has_signal(std::string_view status, std::string_view key, int signal) {
  auto at = status.find(key);
  if (at == std::string_view::npos || signal < 1 || signal > 64) {
    return false;
  }
  at += key.size();
  while (at < status.size() && std::isspace(static_cast<unsigned char>(status[at])) != 0) {
    ++at;
  }
  unsigned long long mask = 0;  // NOLINT(google-runtime-int): 64 bits everywhere
  std::from_chars(status.data() + at, status.data() + status.size(), mask, 16);
  return (mask >> (signal - 1) & 1U) != 0;
}

}  // namespace

std::optional<ProcessStat> parse_stat(std::string_view text) {
  auto const open = text.find('(');
  auto const close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || text.size() < close + 5) {
    return std::nullopt;
  }
  ProcessStat stat;
  stat.comm = text.substr(open + 1, close - open - 1);
  stat.state = text[close + 2];
  auto const fields = split(text.substr(close + 4), ' ');  // parent, pgrp, session, terminal, its group, flags, ...
  auto const parent = number_in<pid_t>(fields[0]);
  if (!parent) {
    return std::nullopt;
  }
  stat.parent = *parent;
  auto const number = [&](std::size_t place) {
    return place < fields.size() ? number_in<std::uint64_t>(fields[place]).value_or(0) : 0;
  };
  stat.flags = static_cast<unsigned>(number(5));
  stat.ticks = number(10) + number(11);  // as a user and in the kernel
  stat.start = number(18);
  stat.pages = number(20);
  return stat;
}

bool parse_catches(std::string_view status, int signal) {
  return has_signal(status, "SigCgt:", signal);
}

bool parse_handles(std::string_view status, int signal) {
  return has_signal(status, "SigCgt:", signal) || has_signal(status, "SigBlk:", signal);
}

std::string read_text(std::string const& path) {
  UniqueFd const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // read() fails when the process ends after open().
  return file ? read_all(file.get(), std::numeric_limits<std::size_t>::max()).value_or("") : "";
}

std::optional<std::string> variables_of(pid_t pid) {
  UniqueFd const file(::open(proc(pid, "environ").c_str(), O_RDONLY | O_CLOEXEC));
  return file ? read_all(file.get(), std::numeric_limits<std::size_t>::max()) : std::nullopt;
}

std::optional<ProcessStat> read_stat(pid_t pid) {
  return parse_stat(read_text(proc(pid, "stat")));
}

bool is_dying(pid_t pid) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING
  auto const stat = read_stat(pid);
  if (stat && (stat->flags & kExiting) != 0) {
    return true;
  }
  auto const status = read_text(proc(pid, "status"));
  return has_signal(status, "SigPnd:", SIGKILL) || has_signal(status, "ShdPnd:", SIGKILL);
}

bool catches_signal(pid_t pid, int signal) {
  return parse_catches(read_text(proc(pid, "status")), signal);
}

bool handles_signal(pid_t pid, int signal) {
  return parse_handles(read_text(proc(pid, "status")), signal);
}

std::string executable_of(pid_t pid) {
  std::array<char, 4096> path{};
  auto const length = readlink(proc(pid, "exe").c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

std::vector<pid_t> children_of(pid_t pid) {
  static bool const listed_by_kernel =
      access(("/proc/self/task/" + std::to_string(getpid()) + "/children").c_str(), F_OK) == 0;
  if (!listed_by_kernel) {
    return children_by_scan(pid);
  }
  std::vector<pid_t> children;
  for (pid_t const thread : numbered_entries(proc(pid, "task"))) {
    std::ifstream file(proc(pid, "task/" + std::to_string(thread) + "/children"));
    children.insert(children.end(), std::istream_iterator<pid_t>(file), {});
  }
  return children;
}

std::vector<pid_t> ancestors_of(pid_t pid) {
  constexpr std::size_t kMost = 1000;  // in case pids that are reused meanwhile form a loop
  std::vector<pid_t> ancestors;
  for (auto stat = read_stat(pid); stat && stat->parent > 0 && ancestors.size() < kMost;
       stat = read_stat(ancestors.back())) {
    ancestors.push_back(stat->parent);
  }
  return ancestors;
}

std::optional<pid_t> find_ancestor(std::string_view comm) {
  for (pid_t pid = getppid(); pid > 0;) {
    auto const stat = read_stat(pid);
    if (!stat) {
      return std::nullopt;
    }
    if (stat->comm == comm) {
      return pid;
    }
    pid = stat->parent;
  }
  std::array<char, 64> name{};
  constexpr std::string_view kFirstNamespace = "pid:[4026531836]";  // PROC_PID_INIT_INO
  bool const inner = readlink("/proc/self/ns/pid", name.data(), name.size() - 1) > 0 && name.data() != kFirstNamespace;
  return inner ? std::optional<pid_t>(0) : std::nullopt;
}

std::string describe_stuck(pid_t pid) {
  std::string line = "pid " + std::to_string(pid);
  auto const stat = read_stat(pid);
  if (!stat) {
    return line + ", gone by now";
  }
  line += " (" + stat->comm + "), state " + stat->state;
  std::string const where = read_text(proc(pid, "wchan"));
  if (!where.empty() && where != "0") {
    line += ", waiting in " + where;
  }
  std::string const stack = read_text(proc(pid, "stack"));  // readable by root only
  if (!stack.empty()) {
    line += ", stack " + stack.substr(0, stack.find('\n'));
  }
  return line;
}

std::uint64_t ms_of_ticks(std::uint64_t ticks) {
  static auto const hertz = static_cast<std::uint64_t>(std::max(1L, sysconf(_SC_CLK_TCK)));
  return ticks * 1000 / hertz;
}

std::uint64_t mib_of_pages(std::uint64_t pages) {
  static auto const kib = static_cast<std::uint64_t>(std::max(1024L, sysconf(_SC_PAGESIZE))) / 1024;
  return pages * kib / 1024;
}

}  // namespace cxxrun::os
