// Electing: how the coordinator inside an agent takes the place of one that was lost. Part of membership; private to
// it. Rules: docs/design/election.md.
#pragma once

#include <string>

#include "rendezvous/membership/forming.hpp"

namespace cxxrun::rendezvous {

void stand(Turn& turn, Stand const& event);
void withdraw(Turn& turn, Withdraw const& event);
void follow(Turn& turn, Followed const& event);
void hear_vote(Turn& turn, AgentId agent, Vote const& message);
/// Half of the votes may have been all there is for long enough.
void electing_tick(Turn& turn);
void bury(Turn& turn, Buried const& event);

/// Another coordinator's decree, accepted before it was lost, is decided now. It is not started: its members elect.
void follow_adopted(Turn& turn);
/// Whoever still waits to be taken in is too late: joins as somebody new.
void drop_late_electors(Turn& turn, std::string const& why);

}  // namespace cxxrun::rendezvous
