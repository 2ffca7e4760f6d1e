// ProcessUsage: what a process uses of the processors and of memory. Shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <sys/types.h>

namespace cxxrun::os {

struct ProcessUsage {
  char state = '?';         ///< R S D Z T t X
  std::uint64_t ticks = 0;  ///< of processor time, in clock ticks
  std::uint64_t pages = 0;  ///< resident
  bool operator==(ProcessUsage const&) const = default;
};

/// Decodes /proc/PID/stat; the name may hold spaces and parentheses. Pure and total.
[[nodiscard]] std::optional<ProcessUsage> parse_usage(std::string_view stat);
/// Nothing: it is gone.
[[nodiscard]] std::optional<ProcessUsage> read_usage(pid_t pid);

/// Of processor time, in milliseconds.
[[nodiscard]] std::uint64_t ms_of_ticks(std::uint64_t ticks);
[[nodiscard]] std::uint64_t mib_of_pages(std::uint64_t pages);

}  // namespace cxxrun::os
