// HangFinding: which collective ranks wait in, and who is not in it, as far as standing still for a limit shows it.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "rendezvous/hangs/hang_groups.hpp"
#include "rendezvous/hangs/hang_state.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Pointers are into the HangState that it was made of.
struct HangFinding {
  std::uint64_t group = kDefaultGroup;
  std::vector<std::uint32_t> members;           ///< the ranks that tell of this group
  std::vector<HangState::Seen const*> waiting;  ///< in the newest collective that somebody waits in for the limit
  std::vector<HangGroup::Member> late;          ///< not in it, or stopped in it; the furthest behind first
  std::vector<HangState::Seen const*> crossed;  ///< nobody is late, and these wait for each other in different groups
  std::uint64_t sequence = 0;                   ///< of that collective; 0: nobody waits
  Millis longest{0};                            ///< how long the first of them has waited
};

/// It has begun a collective of the default group and has not done it.
[[nodiscard]] inline bool inside(Standstill const& figures) {
  return figures.entered > figures.done;
}

/// Of the default group; or of the first of the others in which a rank is late, if none is in that, or only stopped:
/// what it had begun there may be long done. Somebody has waited for `limit`, and the others stand still for `blur`
/// less.
[[nodiscard]] HangFinding find_hang(HangState const& state, std::uint32_t world, TimePoint now, Millis limit,
                                    Millis blur);

}  // namespace cxxrun::rendezvous
