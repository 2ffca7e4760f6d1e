// Proposing: from "all are ready" to "run": the vote on the decree, the gate, the start. Part of membership; private
// to it. Rules: docs/design/election.md.
#pragma once

#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {

/// Every member of the next generation is ready: proposes the decree, or takes it as decided where nobody has to vote.
void begin_deciding(Turn& turn);
/// Sends the proposal to the voters; claims the fence first when only half of them have promised.
void propose(Turn& turn);
/// An acceptance came, or a voter has gone: the proposal may be decided now.
void count_acceptances(Turn& turn);
void hear_accepted(Turn& turn, AgentId agent, Accepted const& message);
void hear_fenced(Turn& turn, Fenced const& event);
/// In phase gated: starts when no older worker can be alive and authority over the new generation is there.
void try_start(Turn& turn);

}  // namespace cxxrun::rendezvous
