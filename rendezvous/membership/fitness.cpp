#include "rendezvous/membership/fitness.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {

Blame blame(Fitness& fitness, std::string const& key, std::uint32_t group_rank) {
  fitness.in_a_row = fitness.culprit == key ? fitness.in_a_row + 1 : 1;
  fitness.culprit = key;
  Blame result;
  auto const suspect = std::find_if(fitness.suspects.begin(), fitness.suspects.end(),
                                    [&](auto const& entry) { return entry.second == group_rank; });
  if (suspect != fitness.suspects.end()) {
    result.acquitted = suspect->first;
    fitness.failing.insert(group_rank);
    fitness.suspects.erase(suspect);
  }
  result.twice = fitness.in_a_row >= 2 && !fitness.failing.contains(group_rank);
  return result;
}

}  // namespace cxxrun::rendezvous
