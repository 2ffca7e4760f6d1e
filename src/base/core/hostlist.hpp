// Host lists in Slurm's notation, for example "rack[1-2]node[01-16],login". Pure, total and bounded.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun {

/// The most hosts in one list. Slurm has the same limit for one range.
inline constexpr std::size_t kMaxHosts = 65536;

/// The hosts in the order in which Slurm's `scontrol show hostnames` (22.05) prints them: not sorted, duplicates kept.
/// Zero padding has the width of a range's low end. A text after the last bracket ("node[1-2]-ib") is accepted, as in
/// Slurm 23 and later. Unlike Slurm, an unclosed bracket and numbers near 2^64 are errors. Errc::environment; the
/// context says where.
[[nodiscard]] Result<std::vector<std::string>> expand_hostlist(std::string_view text);

/// The inverse: the names in this order as a host list that every release of Slurm reads, "node[1-3,07],login".
/// Brackets hold the digits at the end of a name. "" if a name is empty, is longer than 255 bytes or contains a comma,
/// bracket or blank, and if there are more than kMaxHosts.
[[nodiscard]] std::string compress_hostlist(std::vector<std::string> const& names);

/// Slurm's repeat notation for numbers by node, "2(x3),1" → 2 2 2 1; at most kMaxHosts entries.
[[nodiscard]] Result<std::vector<unsigned>> expand_counts(std::string_view text);

/// The inverse: 2 2 2 1 → "2(x3),1".
[[nodiscard]] std::string compress_counts(std::vector<unsigned> const& counts);

}  // namespace cxxrun
