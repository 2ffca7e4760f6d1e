// Acceptor: the voter's half of the vote on the next generation, what it has promised and accepted. Pure.
// Rules, and what goes wrong without each: docs/design/election.md.
#pragma once

#include <cstdint>
#include <optional>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

struct Acceptor {
  std::uint64_t after = 0;  ///< the last decided generation, if this agent is a member of it
  Ballot promised;          ///< lower ballots are refused
  std::optional<AcceptedDecree> accepted;
  bool operator==(Acceptor const&) const = default;
};

struct Answer {
  Acceptor next;
  bool yes = false;  ///< promised, or accepted
};

/// A candidate asks for a promise. Yes if it is about our instance and the ballot is not lower than the promised one;
/// an equal ballot is a repeated request. Never for round 1, which needs no promises.
[[nodiscard]] Answer on_vote_request(Acceptor acceptor, std::uint64_t after, Ballot ballot);
/// A proposal: yes if it is about our instance and the ballot is not lower than the promised one. No to a second decree
/// under the same ballot. `promised` then equals `ballot`, which a proposer would take for yes: send no answer.
[[nodiscard]] Answer on_proposal(Acceptor acceptor, Ballot ballot, Decree const& decree);
/// Generation `number` is decided: a new, empty instance begins if that is later than ours.
[[nodiscard]] Acceptor on_decided(Acceptor acceptor, std::uint64_t number);

}  // namespace cxxrun::rendezvous
