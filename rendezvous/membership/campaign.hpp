// Campaign: what an agent and the coordinator inside it tell each other. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/values/generation.hpp"
#include "rendezvous/values/job_end.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// The coordinator's own agent campaigns, because it has lost the coordinator that it followed. Sent in phase standby,
/// or in electing with a higher ballot.
struct Campaign {
  Decree decided;  ///< the last one it knows
  Ballot ballot;
  std::uint64_t seen = 0;          ///< highest generation number that it has heard of
  std::vector<std::string> hosts;  ///< of the members by group rank, for log lines; may be empty
  bool pair = false;               ///< two members on two nodes, never a spare or a stranger: the pair rule may hold
  std::uint64_t campaign_id = 0;   ///< counts the campaigns of this agent
  Millis half_after{0};            ///< with a fence: half of the votes will do after this time without more
  std::vector<Successor> successors = {};   ///< of `decided`
  std::optional<TimePoint> job_began = {};  ///< by this host's clock, as its last coordinator counted
  std::optional<JobEnd> job_end = {};       ///< as that one said
  bool operator==(Campaign const&) const = default;
};
/// The coordinator's own agent gives up its campaign, or follows another coordinator.
struct Withdraw {
  std::string why;
  bool operator==(Withdraw const&) const = default;
};
/// The coordinator's own agent follows another coordinator, and has learned the last decree and who may lead.
struct Learned {
  Decree decree;
  std::vector<Successor> successors;
  bool operator==(Learned const&) const = default;
};
/// This coordinator decides nothing any more; its own agent has to look for another one.
struct SteppedDown {
  std::string why;
  std::uint64_t campaign_id = 0;  ///< the last campaign heard of: an agent that campaigned again since ignores this
  bool operator==(SteppedDown const&) const = default;
};

}  // namespace cxxrun::rendezvous
