// How every message names a rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cxxrun {

/// "rank 2 on node1"
[[nodiscard]] inline std::string rank_name(std::int64_t rank, std::string const& host) {
  return "rank " + std::to_string(rank) + " on " + host;
}

/// "rank 2", "ranks 2, 3 and 5", at most eight by number.
[[nodiscard]] inline std::string name_ranks(std::vector<int> const& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t const shown = std::min(ranks.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    bool const last = i + 1 == ranks.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > shown ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
}

}  // namespace cxxrun
