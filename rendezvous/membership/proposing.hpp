// Proposing: the vote on the decree, from "all are ready" to "decided". Part of membership. Rules:
// docs/design/election.md.
#pragma once

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

/// Every member of the next generation is ready: the decree is proposed, or decided where nobody has to vote.
[[nodiscard]] Next begin_deciding(Turn& turn);
/// Sends the proposal to the voters; claims the fence first when only half of them have promised.
[[nodiscard]] Next begin(Turn& turn, next::Proposing const& what);
/// An acceptance came, or a voter has gone: the proposal may be decided now.
[[nodiscard]] Next count_acceptances(Turn& turn);
[[nodiscard]] Next hear_accepted(Turn& turn, AgentId agent, Accepted const& message);
[[nodiscard]] Next hear(Turn& turn, Fenced const& event);
/// The members of the generation before have decided, or nobody had to.
[[nodiscard]] Next begin(Turn& turn, next::Decided const& what);

}  // namespace cxxrun::rendezvous
