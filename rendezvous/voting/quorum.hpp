// Quorum: how many members of a generation decide for all of them. Pure.
//
// The denominator is the size in the decree and never shrinks: a member that is proven dead may have voted before.
#pragma once

#include <cstdint>
#include <set>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

enum class Majority {
  no,
  half,  ///< exactly half, and the tie is a fence's to break
  yes,   ///< more than half; or half with group rank 0 under Tie::rank; or anybody at all under Tie::none
};

/// Whether `members` (group ranks of the generation that `decree` decided) may decide the next one.
[[nodiscard]] Majority majority(Decree const& decree, std::set<std::uint32_t> const& members);
/// The same for keeping authority: with a fence only more than half will do, since the other half may claim it.
[[nodiscard]] bool keeps(Decree const& decree, std::set<std::uint32_t> const& members);

}  // namespace cxxrun::rendezvous
