// Workers: what members report of their workers while they run; which of them hang (hangs/hang_detector.hpp), are
// blamed by others (hangs/blame.hpp) or have ended early (leavers.hpp). Part of membership.
#pragma once

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Reports of a member about its workers. Those about ranks of other nodes are ignored in Progress.
[[nodiscard]] Next handle(Turn& turn, Seat& seat, WorkerFailed const& message);
[[nodiscard]] Next handle(Turn& turn, Seat& seat, Succeeded const& message);
[[nodiscard]] Next handle(Turn& turn, Seat& seat, Progress const& message);
/// Names the ranks that keep the others waiting, and orders which are killed.
void hang_tick(Turn& turn);
/// Kills the ranks that the others blame; stops the generation if no rank is waited for.
[[nodiscard]] Next blame_tick(Turn& turn);
/// Names ranks that ended with 0 some seconds ago while others go on.
void leavers_tick(Turn& turn);

}  // namespace cxxrun::rendezvous
