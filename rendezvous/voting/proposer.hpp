// Proposer: who puts the generation after the last decided one to the vote. The other half of acceptor.hpp. Pure.
// Rules, and the table of states and events, of which a test walks every cell: docs/design/election.md.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "rendezvous/values/decree.hpp"
#include "rendezvous/voting/quorum.hpp"

namespace cxxrun::rendezvous {

/// How far the proposer is with the next decree.
enum class Stage {
  idle,      ///< nobody is asked: round 1, or no candidate
  asking,    ///< for promises
  elected,   ///< may propose what was accepted before, else what it is about to prepare
  claiming,  ///< the fence, before anything is proposed: only half have promised
  proposed,  ///< counts acceptances
  settling,  ///< claims the fence last: only half have accepted
  fenced,    ///< proposed, and the fence holds the proposal: half of the acceptances will do
};

/// What gives the right to propose.
enum class Right {
  quorum,    ///< of promises; or the last decree, which names this coordinator
  half,      ///< exactly half have promised: the fence is claimed before anything is proposed
  survivor,  ///< the pair rule: the only other member is proven dead, so ours decides alone
};

/// What follows from an event.
enum class Outcome {
  nothing,
  half,         ///< exactly half have answered: `half_is_all` once nobody else will
  elected,      ///< proposes `proposal` when that is adopted, else prepares one
  send,         ///< the proposal, to every voter
  claim,        ///< the fence file, for `ballot` and `proposal`; `fenced` is its answer
  decided,      ///< `conclude` begins the next instance
  lost,         ///< another ballot has its promises
  partitioned,  ///< the fence holds another decree, or none: nothing else can be decided here, in no round
};

struct Proposer {
  Decree decided;  ///< the last one, whose members vote; number 0: none yet, and nobody votes
  Ballot ballot;   ///< with which the next one is proposed
  Stage stage = Stage::idle;
  Right right = Right::quorum;
  std::set<std::uint32_t> promised;       ///< members that have promised `ballot`
  std::optional<AcceptedDecree> highest;  ///< of what they had accepted before: to be adopted
  std::optional<Decree> proposal;
  std::set<std::uint32_t> accepted;  ///< members that have accepted `proposal`

  bool operator==(Proposer const&) const = default;
  /// Elected, or asking for it, and its own first decree is not decided yet.
  [[nodiscard]] bool taking_over() const { return ballot.round >= kFirstElectedRound; }
  /// The proposal is another coordinator's: once decided it is not started.
  [[nodiscard]] bool adopted() const { return stage > Stage::asking && highest.has_value(); }
};

/// Asks for promises of a ballot, the first time or with a higher one.
void begin_round(Proposer& proposer, Ballot ballot);
/// No candidate any more.
void give_up(Proposer& proposer);
/// A member has promised the ballot, and says what it had accepted before. One that comes after the election counts
/// only without that: its decree was not asked for in time.
void hear_promise(Proposer& proposer, std::uint32_t member, std::optional<AcceptedDecree> const& accepted);
/// A member has promised a higher ballot.
[[nodiscard]] Outcome hear_refusal(Proposer& proposer, std::uint32_t member);
[[nodiscard]] Outcome hear_acceptance(Proposer& proposer, std::uint32_t member);
/// Counts anew who has promised, or accepted.
[[nodiscard]] Outcome count(Proposer& proposer);
/// After Outcome::half: nobody else will answer.
[[nodiscard]] Outcome half_is_all(Proposer& proposer);
/// The pair rule holds: the only other member is proven dead, and ours has promised.
[[nodiscard]] Outcome survive(Proposer& proposer);
/// `proposal` is ready for the vote.
[[nodiscard]] Outcome propose(Proposer& proposer);
/// What the fence holds; nothing: it could not be claimed.
[[nodiscard]] Outcome hear_fence(Proposer& proposer, std::optional<AcceptedDecree> const& holds);
/// The proposal is decided: its members vote on the next one.
void conclude(Proposer& proposer);

}  // namespace cxxrun::rendezvous
