// Granting: beats in, leases out, and the coordinator's own authority. Part of membership.
//
// A beat is O(log N). With many members authority is counted again at most every eighth of a beat: a count that is a
// little old is never too high, since echoes only move on.
#pragma once

#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Members enough to decide are still connected, that agent ("": none) not counted, or have accepted already. Who is
/// lost never votes again here; who is dropped, nowhere.
[[nodiscard]] bool can_decide_without(State const& state, std::string const& incarnation);
/// Why a follower whose vote would be lost with it must not be dropped; "": it can be spared.
[[nodiscard]] std::string needed(Turn& turn, FollowerInfo const& follower_info);

[[nodiscard]] OwnTime own_time(TimePoint now);
/// A message of the agent came with its own send time and the newest of ours that it knows.
void note_echo(Turn& turn, AgentId agent, OwnTime echo, OwnTime sent);
/// What is left of the authority over the last decided generation; 0 without leases.
enum class Count { lazily, exactly };
[[nodiscard]] Millis left(Turn& turn, Count count);
/// Answers one beat, with a lease when the agent's workers may run.
void answer_beat(Turn& turn, AgentId agent, Beat const& beat);
/// The workers at this seat may outlive the loss of its agent, for as long as its last lease: the lease wait is for
/// them.
void keep_lease_outstanding(Turn& turn, Seat const& seat);
/// A new generation is decided: what its members have echoed so far counts for it.
void count_afresh(Turn& turn);
/// Authority may have run out.
[[nodiscard]] Next authority_tick(Turn& turn);
/// Decides nothing any more: hangs up on everybody, and forgets all but the last decision.
[[nodiscard]] Next begin(Turn& turn, next::Deposed const& what);

}  // namespace cxxrun::rendezvous
