// Redirecting: what an agent that follows another tells those that call it because they have lost their coordinator.
// Part of membership; private to it. Rules: docs/design/election.md.
#pragma once

#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {

/// On standby: kept for those that will call, and told to those that have.
void learn(Turn& turn, Learned const& event);
/// It waits here for an election that is over, and may not know anybody who leads: is told who may.
void redirect(Turn& turn, AgentId agent, Elector const& elector);

}  // namespace cxxrun::rendezvous
