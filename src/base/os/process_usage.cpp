#include "src/base/os/process_usage.hpp"

#include <algorithm>
#include <string>
#include <unistd.h>

#include "src/base/core/text.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::os {

std::optional<ProcessUsage> parse_usage(std::string_view stat) {
  auto const close = stat.rfind(')');
  if (close == std::string_view::npos || stat.size() < close + 3) {
    return std::nullopt;
  }
  auto const fields =
      split(stat.substr(close + 2), ' ');  // from the third on: state, ... 14 utime, 15 stime, ... 24 rss
  constexpr std::size_t kUserTime = 11;
  constexpr std::size_t kSystemTime = 12;
  constexpr std::size_t kResident = 21;
  if (fields.size() <= kResident || fields[0].size() != 1) {
    return std::nullopt;
  }
  auto const number = [&](std::size_t place) { return number_in<std::uint64_t>(fields[place]).value_or(0); };
  return ProcessUsage{fields[0][0], number(kUserTime) + number(kSystemTime), number(kResident)};
}

std::optional<ProcessUsage> read_usage(pid_t pid) {
  return parse_usage(read_text("/proc/" + std::to_string(pid) + "/stat"));
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
