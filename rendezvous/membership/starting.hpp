// Starting: from the members that are chosen to workers that run, with the vote on the decree in between. Part of
// membership. Rules of the vote: docs/design/election.md.
#pragma once

#include <optional>

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Gives out seats and a generation number, and asks for a store.
[[nodiscard]] Next begin(Turn& turn, next::Opening const& what);
/// The store is open: tells every member its part.
[[nodiscard]] Next begin(Turn& turn, next::Preparing const& what);
/// A member is ready. After the last one the decree is proposed, or decided at once if nobody has to vote.
[[nodiscard]] Next handle(Turn& turn, Seat& seat, Ack const& message);
/// Tells a spare or newcomer which generation runs and who may succeed its coordinator, if anyone may.
void tell_decided(Turn& turn, AgentId agent);

/// Sends the proposal to the voters. If only half of them have promised, claims the fence first.
[[nodiscard]] Next begin(Turn& turn, next::Proposing const& what);
/// An acceptance came or a voter has gone: decides if the acceptances are enough now.
[[nodiscard]] Next count_acceptances(Turn& turn);
[[nodiscard]] Next on_accepted(Turn& turn, AgentId agent, Accepted const& message);
[[nodiscard]] Next handle(Turn& turn, Fenced const& event);
/// The members of the generation before have decided, or nobody had to vote.
[[nodiscard]] Next begin(Turn& turn, next::Decided const& what);

/// When the last outstanding lease ends; nothing: Start may be sent now.
[[nodiscard]] std::optional<TimePoint> lease_wait(Leases const& leases, TimePoint now);
[[nodiscard]] Next begin(Turn& turn, next::LeaseWait const& what);
/// While the next try is waited for: nodes that have come take free seats.
[[nodiscard]] Next take_in_while_waiting(Turn& turn);
/// In phase lease_wait: starts when no older worker can be alive and there is authority over the new generation.
[[nodiscard]] Next try_start(Turn& turn);
/// Tells all members to start.
[[nodiscard]] Next begin(Turn& turn, next::Running const& what);

}  // namespace cxxrun::rendezvous
