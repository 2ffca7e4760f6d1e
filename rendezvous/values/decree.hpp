// Decree: the value that the members of one generation decide about the next one, and the ballots of that vote. Values.
//
// Generation g+1 is one decree of the members of generation g: single-decree Paxos, one instance per decided generation
// (docs/design/election.md). The voter's half is voting/acceptor.hpp, the coordinator's voting/proposer.hpp.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"

namespace cxxrun::rendezvous {

/// Which side wins when a partition leaves exactly half of the members of a generation on each side.
enum class Tie {
  rank,   ///< the half with group rank 0
  fence,  ///< the half that claims the fence file (--fence)
  none,   ///< --quorum=none: there is no vote; generations of both sides may run at the same time
};

/// Rounds count from 1. Round 1 belongs to the coordinator named in the last decree and needs no promises. Within a
/// round the higher rank is the higher ballot. {0, 0}: none.
struct Ballot {
  std::uint32_t round = 0;
  std::uint32_t rank = 0;                           ///< group rank of the proposer in the generation that votes
  auto operator<=>(Ballot const&) const = default;  // NOLINT(modernize-use-nullptr): means the 0 that < compares with
};

/// The first round that needs promises.
inline constexpr std::uint32_t kFirstElectedRound = 2;

/// The value that is voted on. It has only the number of members and a digest of them: each new member learns its own
/// seat (Generation) before the decree is proposed.
struct Decree {
  std::uint64_t after = 0;        ///< decided generation whose members vote; 0: none yet, so there is no vote
  std::uint64_t number = 0;       ///< of the decreed generation; > after
  std::uint32_t size = 0;         ///< number of its members, who vote on the next decree
  std::uint32_t coordinator = 0;  ///< group rank in `number` of the member whose agent coordinates it
  std::uint32_t restarts = 0;     ///< consumed when it starts; a decided restart counts as consumed
  std::uint64_t members = 0;      ///< digest of the members' incarnations in rank order
  Tie tie = Tie::rank;
  Streak streak = {};                  ///< of failures before it starts
  History history = {};                ///< of the job until the proposal, in its short form
  std::vector<NodeFault> faults = {};  ///< of nodes in this run; the newest
  bool operator==(Decree const&) const = default;
};

struct AcceptedDecree {
  Ballot ballot;
  Decree decree;
  bool operator==(AcceptedDecree const&) const = default;
};

/// What the fence file of the vote after `after` holds: ours if we claimed it first.
struct Fenced {
  std::uint64_t after = 0;
  std::optional<AcceptedDecree> holds;  ///< nothing: the file could not be read or made
  std::string why;                      ///< then the reason
};

}  // namespace cxxrun::rendezvous
