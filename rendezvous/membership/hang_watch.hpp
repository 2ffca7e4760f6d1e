// HangWatch: membership's side of hanging.hpp: hears what agents tell of their workers, says who keeps the others
// waiting, and orders who is killed. Only in phase running. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

[[nodiscard]] HangPolicy hang_policy(Policy const& policy);
/// From a member. Ranks that are not its own are ignored.
void hear_progress(Turn& turn, Seat const& seat, Progress const& message);
void hanging_tick(Turn& turn);

}  // namespace cxxrun::rendezvous
