// Roster: who is here, and what is known of nodes that are not. Part of membership's State.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "rendezvous/membership/fitness.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"

namespace cxxrun::rendezvous {

struct Roster {
  std::map<AgentId, NodeInfo> present;           ///< connected and joined, members and spares
  std::map<std::uint32_t, AgentId> index_owner;  ///< node index → agent present with it
  std::map<AgentId, NodeInfo> excluded;          ///< connected, but excluded: told the end only
  /// No nodes of the job any more, connected for their vote in the next decree: what each is told once that is decided.
  std::map<AgentId, ToAgent> draining;
  std::set<std::uint32_t> came;                 ///< indices of nodes that have ever joined
  std::map<std::string, std::uint32_t> losses;  ///< per node key: how often lost
  std::map<std::string, std::string> gone;      ///< node key → host of nodes lost and not back
  std::set<std::uint32_t> dead;                 ///< indices of nodes of the step known dead and not back
  std::uint32_t vanished = 0;                   ///< nodes lost to an earlier coordinator: which ones is not known
  std::map<std::string, std::string> unfit;     ///< node key → "host: why" of nodes that were excluded
  std::string unkillable_on;                    ///< why a node was excluded for good; "" = none was
  Fitness fitness;                              ///< whose workers were first to fail
};

}  // namespace cxxrun::rendezvous
