// Fitness: whether it is the node that fails, or the rank. Pure.
//
// A node whose worker is the first to fail twice running is excluded when a spare can take its seat. If the next
// failure comes from that seat again, it was not the node: it comes back, and that rank is never a reason to exclude a
// node any more. What "excluded" means: excluding.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cxxrun::rendezvous {

/// What is remembered of the worker failures of a job.
struct Fitness {
  std::string culprit;                            ///< node key of the last failure's cause
  std::uint32_t in_a_row = 0;                     ///< that it was the first to fail
  std::map<std::string, std::uint32_t> suspects;  ///< node keys excluded for it, and their group ranks then
  std::set<std::uint32_t> failing;                ///< group ranks that failures have followed
  std::vector<std::string> lines;                 ///< for the report: "failure followed rank 3 from a to b: …"
  bool operator==(Fitness const&) const = default;
};

struct Blame {
  bool twice = false;     ///< the node was first to fail twice running, and its rank is not known to fail anywhere
  std::string acquitted;  ///< node key of a suspect whose rank fails on another node as well; "" = nobody's
};
/// A worker of the node `key` at `group_rank` was the first to fail.
[[nodiscard]] Blame blame(Fitness& fitness, std::string const& key, std::uint32_t group_rank);

}  // namespace cxxrun::rendezvous
