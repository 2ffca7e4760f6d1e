// Watching: who beats, who is silent, whose collectives stand still (hanging.hpp), and when to look again. Part of
// membership.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// A beat is a sign of life, and is answered.
void hear_beat(Turn& turn, Beaten const& event);
/// An agent whose line for beats has ended opens another with its next beat. One that does not is silent: its host may
/// have died right after, and nothing else would ever tell.
[[nodiscard]] Next hear(Turn& turn, BeatsEnded const& event);
/// Who has been silent for too long is to be taken for lost, unless it is us who are out of reach.
struct Silent {
  Next next = stay;
  std::vector<AgentId> agents;
};
[[nodiscard]] Silent silence_tick(Turn& turn);
/// From a member, in phase running. Ranks that are not its own are ignored.
[[nodiscard]] Next hear(Turn& turn, Seat& seat, Progress const& message);
/// Says who keeps the others waiting, and orders who is killed.
void hanging_tick(Turn& turn);
/// A worker's end is a failure: what follows when it names a peer whose own end may come yet.
[[nodiscard]] Next hear_end(Turn& turn, Seat const& seat, WorkerExit const& exit);
/// All workers of this node have ended with 0, and perhaps one that the others wait for.
[[nodiscard]] Next hear_success(Turn& turn, Seat const& seat);
/// Ends whom the others have named, and stops the generation when nobody is waited for.
[[nodiscard]] Next accusing_tick(Turn& turn);
/// Names those that have ended with 0 for some seconds while others go on.
void leavers_tick(Turn& turn);
[[nodiscard]] std::optional<TimePoint> next_deadline(State const& state);

}  // namespace cxxrun::rendezvous
