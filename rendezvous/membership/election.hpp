// Election: how the coordinator inside an agent takes the place of one that was lost. Part of membership.
//
// Agents that have lost their coordinator call. A campaign asks those that are members of the last generation for their
// promise. With a quorum the coordinator adopts what was accepted before, or takes the generation over: it works out
// who sat where and whose workers may still run, and stops them. Rules: docs/design/election.md.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

/// Waiting for members of the last generation; no generation of ours has begun.
[[nodiscard]] inline bool candidate(State const& state) {
  return state.phase == Phase::electing || (state.phase == Phase::proposing && state.proposer.adopted());
}
/// Elected, and the next generation is not formed yet: a member that calls keeps its seat.
[[nodiscard]] inline bool gathering(State const& state) {
  return state.proposer.taking_over() && (state.phase == Phase::stopping || state.phase == Phase::forming);
}
/// The follower's rank in the generation that is decided, if it was prepared for it. It may not know of the decision.
[[nodiscard]] inline std::optional<std::uint32_t> ready_rank(FollowerInfo const& follower_info, Decree const& decided) {
  bool const ready = follower_info.prepared == decided.number && follower_info.prepared_members == decided.members;
  return ready ? follower_info.prepared_rank : std::nullopt;
}

/// This agent begins to campaign, or does so again with a higher ballot.
[[nodiscard]] Next handle(Turn& turn, Campaign const& event);
/// Asks all agents that have called for their promise.
[[nodiscard]] Next begin(Turn& turn, next::Electing const& what);
[[nodiscard]] Next handle(Turn& turn, Withdraw const& event);
[[nodiscard]] Next begin(Turn& turn, next::Standby const& what);
[[nodiscard]] Next on_vote(Turn& turn, AgentId agent, Vote const& message);
/// Elects this coordinator if enough voters have promised.
[[nodiscard]] Next count_promises(Turn& turn);
/// With exactly half of the votes: whether it has waited long enough for more.
[[nodiscard]] Next electing_tick(Turn& turn);
/// The decree of another coordinator, adopted by this one, is decided. It is not started: its members elect again, in
/// this round.
[[nodiscard]] Next campaign_after_adopted(Turn& turn, std::uint32_t round);
/// The workers at this seat are dead for certain. Returns the agent of the seat if that still counts as connected.
[[nodiscard]] std::optional<AgentId> on_death_notice(Turn& turn, Gone const& gone);

/// What a call leads to.
struct CallResult {
  Next next = stay;
  bool as_stranger = false;  ///< the caller can only get a seat like any newcomer: let it in or refuse it
  bool new_death = false;    ///< it knew of a dead member that was not known dead here
};
[[nodiscard]] CallResult on_follower_call(Turn& turn, FollowerCalled const& event);
/// On standby: keeps who leads now, and tells the agents that have called.
[[nodiscard]] Next handle(Turn& turn, Learned const& event);
/// Tells the agent that it is dropped, and closes its connection.
void refuse(Turn& turn, AgentId agent, std::string const& why);
/// Refuses all followers that still wait to be taken in: they are too late, and join as newcomers.
void drop_late_followers(Turn& turn, std::string const& why);

}  // namespace cxxrun::rendezvous
