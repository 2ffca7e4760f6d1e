// Preparing: the members of the next generation are chosen and told their part. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Gives out seats and a number, and asks for a store.
void begin_opening(Turn& turn);
/// The store is open: tells every member its part.
void begin_preparing(Turn& turn, StoreOpened const& store);
/// Spares and newcomers hear which generation runs and who may succeed its coordinator, where somebody may.
void tell_decided(Turn& turn, AgentId agent);

}  // namespace cxxrun::rendezvous
