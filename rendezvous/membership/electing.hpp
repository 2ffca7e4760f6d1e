// Electing: how the coordinator inside an agent takes the place of one that was lost. Part of membership.
// Rules: docs/design/election.md.
#pragma once

#include <optional>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Waiting for members of the last generation; nothing of ours has begun.
[[nodiscard]] inline bool candidate(State const& state) {
  return state.phase == Phase::electing || (state.phase == Phase::proposing && state.proposer.adopted());
}
/// Elected, and the generation that follows is not formed yet: a member that calls keeps its seat.
[[nodiscard]] inline bool gathering(State const& state) {
  return state.proposer.taking_over() && (state.phase == Phase::stopping || state.phase == Phase::forming);
}

/// Its rank in the generation that is decided, if it was made ready for it. It learns by our word that it is decided.
[[nodiscard]] inline std::optional<std::uint32_t> ready_rank(FollowerInfo const& follower_info, Decree const& decided) {
  bool const ready = follower_info.prepared == decided.number && follower_info.prepared_members == decided.members;
  return ready ? follower_info.prepared_rank : std::nullopt;
}

/// This agent campaigns, or again with a higher ballot.
[[nodiscard]] Next hear(Turn& turn, Campaign const& event);
/// Asks all that have called for their promise.
[[nodiscard]] Next begin(Turn& turn, next::Electing const& what);
[[nodiscard]] Next hear(Turn& turn, Withdraw const& event);
[[nodiscard]] Next begin(Turn& turn, next::Standby const& what);
/// Asks one caller for its promise, or tells it what is decided; gives way when it knows more.
[[nodiscard]] Next ask(Turn& turn, AgentId agent, FollowerInfo const& follower_info);
/// Somebody knows a later decision than ours: everybody here hears of it, and we have nothing to decide.
[[nodiscard]] Next yield_to(Turn& turn, Decree const& later);
[[nodiscard]] Next hear_vote(Turn& turn, AgentId agent, Vote const& message);
/// Enough may have promised.
[[nodiscard]] Next count_promises(Turn& turn);
/// Half of the votes may have been all there is for long enough.
[[nodiscard]] Next electing_tick(Turn& turn);
/// Another coordinator's decree, accepted before it was lost, is decided now. It is not started: its members elect, in
/// this round.
[[nodiscard]] Next campaign_after_adopted(Turn& turn, std::uint32_t round);
/// A seat's workers are dead for certain. The agent that has it, when that is still taken for connected.
[[nodiscard]] std::optional<AgentId> hear_death_notice(Turn& turn, Gone const& gone);

}  // namespace cxxrun::rendezvous
