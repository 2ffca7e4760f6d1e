// Ending: how a generation ends, and how the run does. Part of membership.
#pragma once

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Tells every member to stop. The reason is the first event; the cause is determined when all have answered.
[[nodiscard]] Next begin(Turn& turn, next::Stopping const& what);
/// A member has stopped its workers.
[[nodiscard]] Next handle(Turn& turn, Seat& seat, Stopped const& message);
/// After a takeover: a member that called late, whose workers may run, has to stop, too. The phase may be forming
/// already.
[[nodiscard]] Next begin(Turn& turn, next::StoppingLate const& what);
/// An awaited member has stopped or is lost.
[[nodiscard]] Next answered(Turn& turn);
/// Goes on if all members have stopped and no late one is waited for.
[[nodiscard]] Next consider_stopped(Turn& turn);
/// Treats the members that have not answered in time as lost; what follows comes after all of them are dropped.
[[nodiscard]] Next drop_silent(Turn& turn);
/// All have stopped: determines the cause; then the next generation is formed, or the job is over.
[[nodiscard]] Next begin(Turn& turn, next::Stopped const& what);
/// Tells all agents the verdict, and waits for them to leave.
[[nodiscard]] Next begin(Turn& turn, next::Finished const& what);
/// Until when agents have time to leave, and members that were cut off to notice it and to call.
[[nodiscard]] TimePoint sees_off_until(Turn const& turn);
/// The coordinator may end.
void close(Turn& turn);
/// After the verdict: closes if the last agent has left, no node of the step is still to come, and no member may have
/// missed the verdict.
void close_if_alone(Turn& turn);

}  // namespace cxxrun::rendezvous
