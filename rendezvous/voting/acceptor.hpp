// Acceptor: the memory of one voter about the generation after the last one decided. Pure.
// Rules and what goes wrong without each: docs/design/election.md.
#pragma once

#include <cstdint>
#include <optional>

#include "rendezvous/values/decree.hpp"

namespace cxxrun::rendezvous {

struct Acceptor {
  std::uint64_t after = 0;  ///< last decided generation that this agent knows and is a member of
  Ballot promised;          ///< no lower ballot is accepted any more
  std::optional<AcceptedDecree> accepted;
  bool operator==(Acceptor const&) const = default;
};

struct Answer {
  Acceptor next;
  bool yes = false;  ///< promised, or accepted
};

/// A candidate asks for a promise. Yes when the instance is ours and the ballot is higher than any promised, or the
/// very one promised (its request was repeated). Never for round 1, which needs none.
[[nodiscard]] Answer asked(Acceptor acceptor, std::uint64_t after, Ballot ballot);
/// A proposal: yes when the instance is ours and the ballot is not lower than any promised. No, with `promised` equal
/// to `ballot`, to a second decree under a ballot that has carried another: that is nobody's to answer.
[[nodiscard]] Answer proposed(Acceptor acceptor, Ballot ballot, Decree const& decree);
/// A later generation is decided: a new instance begins, empty.
[[nodiscard]] Acceptor decided(Acceptor acceptor, std::uint64_t number);

}  // namespace cxxrun::rendezvous
