// Proposer: the coordinator's half of the vote on the next generation (acceptor.hpp is the voter's), and its quorums.
// Pure.
//
// The rules, and the table of states and events, are in docs/design/election.md; a test checks every cell of it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

enum class Majority {
  no,
  half,  ///< exactly half, and the fence breaks the tie
  yes,   ///< more than half; or half with group rank 0 under Tie::rank; or any set under Tie::none
};

/// Whether `members`, group ranks of the generation that `decree` decided, may decide the next one. The denominator is
/// the size in the decree and never shrinks: a dead member may have voted before it died.
/// Authority (lease.hpp) needs `yes`: after `half`, the other half may still claim the fence.
[[nodiscard]] Majority majority(Decree const& decree, std::set<std::uint32_t> const& members);

/// How far the vote on the next decree has come.
enum class Stage {
  idle,      ///< no promises are asked for: round 1, or no candidate
  asking,    ///< collects promises
  elected,   ///< may propose: the decree that was accepted before, else a new one
  claiming,  ///< claims the fence before it proposes: only half have promised
  proposed,  ///< collects acceptances
  settling,  ///< claims the fence after it has proposed: only half have accepted
  fenced,    ///< proposed, and the fence holds the proposal: half of the acceptances are enough
};

/// The right to propose.
enum class Right {
  quorum,    ///< a majority has promised, or the last decree names this coordinator
  half,      ///< exactly half have promised: the fence is claimed before the proposal
  survivor,  ///< pair rule: the only other member is proven dead, so this one decides alone
};

/// The consequence of an event.
enum class Outcome {
  nothing,
  half,         ///< exactly half have answered: call `half_is_all` if no other answer can come
  elected,      ///< propose `proposal` if it is adopted, else prepare one
  send,         ///< send the proposal to every voter
  claim,        ///< claim the fence file for `ballot` and `proposal`; `hear_fence` takes the answer
  decided,      ///< `conclude` begins the next instance
  lost,         ///< a higher ballot has the promises
  partitioned,  ///< the fence holds another decree or could not be claimed: nothing can be decided here, in no round
};

struct Proposer {
  Decree decided;  ///< the last one, whose members vote; number 0: none yet, so there is no vote
  Ballot ballot;   ///< of the next proposal
  Stage stage = Stage::idle;
  Right right = Right::quorum;
  std::set<std::uint32_t> promised;       ///< members that have promised `ballot`
  std::optional<AcceptedDecree> highest;  ///< the highest that they had accepted before: it must be adopted
  std::optional<Decree> proposal;
  std::set<std::uint32_t> accepted;  ///< members that have accepted `proposal`

  bool operator==(Proposer const&) const = default;
  /// It campaigns or was elected, and its first decree is not decided yet.
  [[nodiscard]] bool taking_over() const { return ballot.round >= kFirstElectedRound; }
  /// The proposal is another coordinator's: it is decided, but not started.
  [[nodiscard]] bool adopted() const { return stage > Stage::asking && highest.has_value(); }
};

/// Starts to collect promises of `ballot`.
void begin_round(Proposer& proposer, Ballot ballot);
/// Stops being a candidate.
void give_up(Proposer& proposer);
/// A member has promised the ballot. `accepted`: what it had accepted before. After the election a promise counts only
/// without one, since an accepted decree would then come too late to be adopted.
void hear_promise(Proposer& proposer, std::uint32_t member, std::optional<AcceptedDecree> const& accepted);
/// A member has promised a higher ballot.
[[nodiscard]] Outcome hear_refusal(Proposer& proposer, std::uint32_t member);
[[nodiscard]] Outcome hear_acceptance(Proposer& proposer, std::uint32_t member);
/// Counts the promises or the acceptances again.
[[nodiscard]] Outcome count(Proposer& proposer);
/// After Outcome::half: no other answer can come.
[[nodiscard]] Outcome half_is_all(Proposer& proposer);
/// The pair rule applies: the only other member is proven dead, and our own has promised.
[[nodiscard]] Outcome survive(Proposer& proposer);
/// Puts `proposal` to the vote.
[[nodiscard]] Outcome propose(Proposer& proposer);
/// The fence holds this decree; nothing: it could not be claimed.
[[nodiscard]] Outcome hear_fence(Proposer& proposer, std::optional<AcceptedDecree> const& holds);
/// The proposal is decided: its members vote on the next one.
void conclude(Proposer& proposer);

}  // namespace cxxrun::rendezvous
