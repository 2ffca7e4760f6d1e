// Word: the event that an agent's message is for membership. Pure.
//
// The server passes on what agents say through here alone, the first message of a connection and all later ones, and so
// does the simulation: what only the coordinator's end of a connection shows is filled in each time.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/membership/events.hpp"

namespace cxxrun::rendezvous {

/// What the coordinator's end of an agent's connection shows.
struct MemberEnds {
  std::string own;       ///< incarnation of the agent that this coordinator runs in
  std::string from;      ///< address of the agent's end
  std::string to;        ///< address of this end: the one that the agent has called
  bool relayed = false;  ///< it is not proven to be the agent's own
};

/// Join or FollowerInfo, with which a connection begins. Nothing: no other message may be the first.
[[nodiscard]] std::optional<Event> first_word(AgentId agent, ToCoordinator&& message, MemberEnds const& ends);
/// Of an agent that has said its first word. Nothing: Join and Gone, which are no further word of anybody.
[[nodiscard]] std::optional<Event> further_word(AgentId agent, ToCoordinator&& message, MemberEnds const& ends);

}  // namespace cxxrun::rendezvous
