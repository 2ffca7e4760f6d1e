// Leases: beats in, leases out; which agents are silent; and the coordinator's own authority. Part of membership.
//
// A beat costs O(log N). With many members the authority is counted at most once in an eighth of the beat interval. An
// older count is never too high, because the times of echoes only grow.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Whether the members that are connected, without this agent ("": without none), or have accepted already, are enough
/// to decide. A lost member never votes here again; a dropped one, nowhere.
[[nodiscard]] bool can_decide_without(State const& state, std::string const& incarnation);
/// Why a follower must not be dropped, because its vote would be lost; "": it can be dropped.
[[nodiscard]] std::string needed(Turn& turn, FollowerInfo const& follower_info);

/// A message of the agent came, with its own send time and the newest send time of ours that it knows.
void note_echo(Turn& turn, AgentId agent, OwnTime echo, OwnTime sent);
/// `lazily`: a recent count will do.
enum class Count { lazily, exactly };
/// How much longer the authority over the last decided generation lasts; 0 without leases.
[[nodiscard]] Millis left(Turn& turn, Count count);
/// A beat is a sign of life, and is answered; with a lease if the agent's workers may run.
void on_beat(Turn& turn, Beaten const& event);
/// An agent whose connection for beats has ended opens another one for its next beat. If it does not, it counts as
/// silent: its host may have died at that moment, and nothing else would show it.
[[nodiscard]] Next handle(Turn& turn, BeatsEnded const& event);
/// Agents that have been silent for too long, to be treated as lost; or `next`, if this coordinator is the one cut off.
struct Silent {
  Next next = stay;
  std::vector<AgentId> agents;
};
[[nodiscard]] Silent silence_tick(Turn& turn);
/// The agent of this seat is lost. Its workers may run until its last lease ends: the next Start waits for that.
void keep_lease_outstanding(Turn& turn, Seat const& seat);
/// A new generation is decided: its members vote from now on, and what they have echoed so far counts.
void count_afresh(Turn& turn);
/// Checks whether the authority has run out.
[[nodiscard]] Next authority_tick(Turn& turn);
/// Steps down: closes all connections, and forgets all but the last decision.
[[nodiscard]] Next begin(Turn& turn, next::Deposed const& what);

}  // namespace cxxrun::rendezvous
