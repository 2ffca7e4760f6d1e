// Ending: of a generation, and of the run. Part of membership.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// What members tell of their workers.
[[nodiscard]] Next hear(Turn& turn, Seat& seat, WorkerFailed const& message);
[[nodiscard]] Next hear(Turn& turn, Seat& seat, Succeeded const& message);
[[nodiscard]] Next hear(Turn& turn, Seat& seat, Stopped const& message);
/// Tells every member to stop. The reason is the first event; the cause is fixed when all have answered.
[[nodiscard]] Next begin(Turn& turn, next::Stopping const& what);
/// One more member than were known, whose workers may run, is to stop too; the phase may be forming already.
[[nodiscard]] Next begin(Turn& turn, next::StoppingLate const& what);
/// One awaited member has stopped or is gone.
[[nodiscard]] Next answered(Turn& turn);
/// All members have stopped, and none is on its way.
[[nodiscard]] Next consider_stopped(Turn& turn);
/// The members that have not answered in time are treated as lost, all of them before anything follows from it.
[[nodiscard]] Next drop_silent(Turn& turn);
/// Everyone has stopped: fixes the cause, then a generation is formed again or the job is over.
[[nodiscard]] Next begin(Turn& turn, next::Stopped const& what);
/// Tells everybody the verdict, and waits for them to leave.
[[nodiscard]] Next begin(Turn& turn, next::Finished const& what);
/// From now on: how long agents have to leave, and members that were cut off to notice that and to call.
[[nodiscard]] TimePoint sees_off_until(Turn const& turn);
/// The coordinator may go.
void close(Turn& turn);
/// After the verdict: closes when the last agent has left, none of the step is still to come, and no member may have
/// missed it.
void close_if_alone(Turn& turn);

}  // namespace cxxrun::rendezvous
