// Excluding: nodes that stay connected but take no part, and how they come back. Part of membership.
#pragma once

#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

struct Blame {
  bool twice = false;     ///< the node was first to fail twice running, and its rank is not known to fail anywhere
  std::string acquitted;  ///< node key of a suspect whose rank fails on another node as well; "" = nobody's
};
/// A worker of the node `key` at `group_rank` was the first to fail.
[[nodiscard]] Blame blame(Fitness& fitness, std::string const& key, std::uint32_t group_rank);

/// Takes a node that is present out of the job: no seat, hears of nothing but the end, refused when its agent is
/// started again. It stays connected, for Slurm may end a step when a task of it leaves early.
void exclude(Turn& turn, AgentId agent, std::string const& why);

/// A node waits that could take a seat.
[[nodiscard]] bool has_spare(State const& state);

/// A worker failure ended the generation, and `cause` came first. Excludes its node when that one was first to fail
/// twice running, a spare is there and the job `goes_on`; calls one back that was not to blame. The coordinator's own
/// node is never excluded for it: the job would lose more than a seat.
void judge_nodes(Turn& turn, Failure const& cause, bool goes_on);

/// With too few left, nodes that were excluded for failing twice are better than none.
void call_back_if_too_few(Turn& turn);

/// Group ranks whose nodes could not start the program while nodes of the same role did, so that it is the node's
/// fault, and why. Empty when it is the program's, when nobody could take over, or when the coordinator's own node is
/// one of them.
[[nodiscard]] std::map<std::uint32_t, std::string> start_faults(State const& state, Policy const& policy);

}  // namespace cxxrun::rendezvous
