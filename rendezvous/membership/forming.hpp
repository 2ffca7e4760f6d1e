// Forming: agents gather until the next generation can be formed, or never can. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Fresh deadlines; looks whether the generation can be formed at once.
[[nodiscard]] Next begin(Turn& turn, next::Forming const& what);
/// The generation that was being made, decided already or not, cannot run: its members hear so, and the next is formed.
[[nodiscard]] Next begin(Turn& turn, next::FormingAgain const& what);
/// Forms the generation when everybody who can come has come; arms the window when MIN has.
[[nodiscard]] Next consider_forming(Turn& turn);
/// The join window or the join timeout may have passed.
[[nodiscard]] Next forming_tick(Turn& turn);
/// Ends a run that everybody has left, when the policy says so.
[[nodiscard]] Next abandoned(Turn& turn);

}  // namespace cxxrun::rendezvous
