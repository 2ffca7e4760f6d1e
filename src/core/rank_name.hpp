// How every message names a rank.
#pragma once

#include <cstdint>
#include <string>

namespace cxxrun {

/// "rank 2 on node1"
[[nodiscard]] inline std::string rank_name(std::int64_t rank, std::string const& host) {
  return "rank " + std::to_string(rank) + " on " + host;
}

}  // namespace cxxrun
