// Election: who votes, who has called after a loss, and what a coordinator that is elected knows of the generation that
// it takes over. Part of membership's State; the vote itself is voting/proposer.hpp. Rules: docs/design/election.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"

namespace cxxrun::rendezvous {

/// A seat of a generation that has run: {generation, group rank}.
using Held = std::pair<std::uint64_t, std::uint32_t>;

/// Whether another coordinator may be elected in the place of this one.
enum class Succession {
  none,      ///< no generation so far could go on without its coordinator
  possible,  ///< one could
  happened,  ///< and this coordinator was elected in the place of another
};

struct Election {
  std::map<AgentId, std::uint32_t> voters;    ///< connected members of the last decree, with their group ranks there
  std::map<AgentId, FollowerInfo> followers;  ///< connected, have lost their coordinator, not in a generation of ours
  std::optional<Learned> learned;             ///< standby: for callers that know of an older generation
  std::uint64_t campaign_id = 0;              ///< of the last Campaign
  std::uint64_t seen = 0;                     ///< highest generation number that anybody has heard of
  Succession succession = Succession::none;
  bool survives = false;   ///< the generation being prepared can go on without its coordinator
  bool two_nodes = false;  ///< the pair rule may hold: two members in two nodes, no spare and no stranger ever
  Millis half_after{0};    ///< standing: how long to wait for a majority before half and the fence will do
  std::vector<Successor> successors;           ///< of the last decree; empty: not known
  std::vector<Successor> proposed_successors;  ///< of our own proposal
  std::vector<std::string> old_hosts;          ///< of the generation whose coordinator was lost, by group rank
  std::set<Held> confirmed_dead;               ///< seats whose agents' parents have sent a death notice
  std::set<std::uint32_t> missing;             ///< taking over: members of the last decree that have not called
  std::optional<TimePoint> last_contact;  ///< taking over: latest contact that a voter has had with the old coordinator
};

}  // namespace cxxrun::rendezvous
