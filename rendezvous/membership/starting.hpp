// Starting: from the members that are chosen to workers that run. Part of membership.
#pragma once

#include <optional>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Gives out seats and a number, and asks for a store.
[[nodiscard]] Next begin(Turn& turn, next::Opening const& what);
/// The store is open: tells every member its part.
[[nodiscard]] Next begin(Turn& turn, next::Preparing const& what);
/// A member is ready; the last one begins the vote.
[[nodiscard]] Next hear(Turn& turn, Seat& seat, Ack const& message);
/// Spares and newcomers hear which generation runs and who may succeed its coordinator, where somebody may.
void tell_decided(Turn& turn, AgentId agent);
/// When Start may be sent: now (nothing), or when the last outstanding lease has ended.
[[nodiscard]] std::optional<TimePoint> lease_wait(Leases const& leases, TimePoint now);
[[nodiscard]] Next begin(Turn& turn, next::LeaseWait const& what);
/// While a restart is waited for: nodes that have come take the seats that are free.
[[nodiscard]] Next take_in_while_waiting(Turn& turn);
/// In phase lease_wait: starts when no older worker can be alive and authority over the new generation is there.
[[nodiscard]] Next try_start(Turn& turn);
/// Tells all to start.
[[nodiscard]] Next begin(Turn& turn, next::Running const& what);

}  // namespace cxxrun::rendezvous
