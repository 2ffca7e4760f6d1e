// Quorum: how many members of a generation decide for all of them. Pure.
//
// The denominator is the size in the decree and never shrinks: a member that is proven dead may have voted before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

enum class Majority {
  no,
  half,  ///< exactly half, and the tie is a fence's to break
  yes,   ///< more than half; or half with group rank 0 under Tie::rank; or anybody at all under Tie::none
};

/// Whether `members` (group ranks of the generation that `decree` decided) may decide the next one. To keep authority
/// it takes `yes`: with a fence the other half may claim it.
[[nodiscard]] inline Majority majority(Decree const& decree, std::set<std::uint32_t> const& members) {
  if (decree.tie == Tie::none || decree.number == 0) {
    return Majority::yes;
  }
  bool const all_known = members.empty() || *members.rbegin() < decree.size;  // as a rule: counting takes no walk
  std::size_t const count =
      all_known ? members.size()
                : static_cast<std::size_t>(std::distance(members.begin(), members.lower_bound(decree.size)));
  if (count * 2 > decree.size) {
    return Majority::yes;
  }
  if (count * 2 < decree.size || count == 0) {
    return Majority::no;
  }
  if (decree.tie == Tie::fence) {
    return Majority::half;
  }
  return members.contains(0) ? Majority::yes : Majority::no;
}

}  // namespace cxxrun::rendezvous
