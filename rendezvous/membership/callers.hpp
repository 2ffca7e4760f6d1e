// Callers: agents that have lost their coordinator call whoever may lead now. Part of membership.
// Rules: docs/design/election.md.
#pragma once

#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

struct Heard {
  Next next = stay;
  bool as_stranger = false;  ///< nothing but a place may come of it: it is to be let in or refused like anybody
  bool of_death = false;     ///< it knew of a member that is dead, and nobody here had
};
/// One of them presents itself.
[[nodiscard]] Heard hear_caller(Turn& turn, FollowerCalled const& event);
/// On standby: who leads is kept for those that will call, and told to those that have.
[[nodiscard]] Next hear(Turn& turn, Learned const& event);
/// It has no place here.
void refuse(Turn& turn, AgentId agent, std::string const& why);
/// Whoever still waits to be taken in is too late: joins as somebody new.
void drop_late_followers(Turn& turn, std::string const& why);

}  // namespace cxxrun::rendezvous
