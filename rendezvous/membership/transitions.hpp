// Transitions: the only place where a phase begins. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Begins what is to follow, and what follows from that, until nothing does.
void go_on(Turn& turn, Next next);

}  // namespace cxxrun::rendezvous
