// Forming: collects agents until the next generation can be formed, or never can be. Part of membership.
#pragma once

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Sets the deadlines; forms the generation at once if it can.
[[nodiscard]] Next begin(Turn& turn, next::Forming const& what);
/// The generation being prepared cannot run, decided or not: tells its members, and forms the next one.
[[nodiscard]] Next begin(Turn& turn, next::FormingAgain const& what);
/// Forms the generation if all nodes that can come are here; starts the join window if MIN are.
[[nodiscard]] Next consider_forming(Turn& turn);
/// Checks the join window and the join timeout.
[[nodiscard]] Next forming_tick(Turn& turn);
/// Ends a run that all agents have left, if the policy says so.
[[nodiscard]] Next abandoned(Turn& turn);

}  // namespace cxxrun::rendezvous
