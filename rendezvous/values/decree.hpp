// Decree: what the members of one generation decide about the next one. And the ballots by which they do.
//
// Generation g+1 is one decree of the members of generation g (docs/design/election.md): single-decree Paxos, one
// instance per decided generation. Pure values; the voter's half is acceptor.hpp, the coordinator's proposer.hpp.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/node_fault.hpp"
#include "rendezvous/values/streak.hpp"

namespace cxxrun::rendezvous {

/// Who wins when exactly half of the members of a generation are on each side of a cut.
enum class Tie {
  rank,   ///< the half with the lowest group rank
  fence,  ///< whoever claims the fence file (--fence)
  none,   ///< --quorum=none: nobody is asked at all; generations may run beside each other
};

/// Rounds count from 1. Round 1 belongs to the coordinator named in the last decree and needs no vote; of two ballots
/// of one round the higher rank is the higher ballot. {0, 0}: none.
struct Ballot {
  std::uint32_t round = 0;
  std::uint32_t rank = 0;                           ///< group rank of the proposer in the generation that votes
  auto operator<=>(Ballot const&) const = default;  // NOLINT(modernize-use-nullptr): means the 0 that < compares with
};

/// Round 1 belongs to the coordinator that the last decree names: nobody is asked for it.
inline constexpr std::uint32_t kFirstElectedRound = 2;

/// A value that is voted on. It says who will be the members only by their number and a digest: each new member knows
/// its own seat before the decree is proposed.
struct Decree {
  std::uint64_t after = 0;        ///< decided generation whose members vote; 0: the first one, nobody votes
  std::uint64_t number = 0;       ///< of the generation decreed; > after
  std::uint32_t size = 0;         ///< its members: who votes on the one after it
  std::uint32_t coordinator = 0;  ///< group rank, in `number`, of the member whose agent coordinates it
  std::uint32_t restarts = 0;     ///< consumed when it starts; decided means consumed
  std::uint64_t members = 0;      ///< digest of the members' incarnations in the order of their ranks
  Tie tie = Tie::rank;
  Streak streak = {};                  ///< of failures before it starts; like restarts
  History history = {};                ///< of the job until it was proposed, in short
  std::vector<NodeFault> faults = {};  ///< of its nodes in this run, the newest
  bool operator==(Decree const&) const = default;
};

struct AcceptedDecree {
  Ballot ballot;
  Decree decree;
  bool operator==(AcceptedDecree const&) const = default;
};

/// The fence file after `after` holds this now; ours if we were first. Nothing: it could not be read or made.
struct Fenced {
  std::uint64_t after = 0;
  std::optional<AcceptedDecree> holds;
  std::string why;
};

}  // namespace cxxrun::rendezvous
