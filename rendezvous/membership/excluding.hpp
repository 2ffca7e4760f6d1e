// Excluding: nodes that stay connected but take no part, and how they come back. Part of membership.
#pragma once

#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Takes a node that is present out of the job: no seat, hears of nothing but the end, refused when its agent is
/// started again. It stays connected, for Slurm may end a step when a task of it leaves early.
void exclude(Turn& turn, AgentId agent, std::string const& why);

/// A node waits that could take a seat.
[[nodiscard]] bool has_spare(State const& state);

/// A worker failure ended the generation, and `cause` came first. Excludes its node when that one is to blame again,
/// the others are enough and the job `goes_on`; calls those back that were not to blame. The coordinator's own node is
/// never excluded for it: the job would lose more than a seat.
void judge_nodes(Turn& turn, Failure const& cause, bool goes_on);

/// Somebody who came is known to have failed often enough; none of them is the coordinator's own node.
[[nodiscard]] bool has_known_bad(State const& state);
/// Excludes those while the others are enough.
void set_aside_known_bad(Turn& turn);

/// With too few left, nodes that were excluded for their failures are better than none.
void call_back_if_too_few(Turn& turn);

/// Group ranks whose nodes could not start the program while nodes of the same role did, so that it is the node's
/// fault, and why. Empty when it is the program's, when nobody could take over, or when the coordinator's own node is
/// one of them.
[[nodiscard]] std::map<std::uint32_t, std::string> start_faults(State const& state, Policy const& policy);

}  // namespace cxxrun::rendezvous
