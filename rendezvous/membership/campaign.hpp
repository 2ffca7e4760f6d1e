// Campaign: what an agent and the coordinator inside it tell each other. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/values/generation.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// The coordinator's own agent campaigns: it has lost the one that was. In phase standby, or again in
/// electing with a higher ballot.
struct Campaign {
  Decree decided;  ///< the last one it knows
  Ballot ballot;
  std::uint64_t seen = 0;          ///< highest generation number it has heard of
  std::vector<std::string> hosts;  ///< of the members by group rank, for people; may be empty
  bool pair = false;  ///< exactly two members and two nodes, no spare and no stranger ever: the pair rule may hold
  std::uint64_t campaign_id = 0;  ///< counts those of this agent
  Millis half_after{0};           ///< exactly half of the votes, with a fence, do only when no more came for so long
  std::vector<Successor> successors = {};   ///< of `decided`
  std::optional<TimePoint> job_began = {};  ///< by the clock of this host, as its last coordinator counted
  bool operator==(Campaign const&) const = default;
};
/// The coordinator's own agent gives its campaign up, or follows another.
struct Withdraw {
  std::string why;
  bool operator==(Withdraw const&) const = default;
};
/// The coordinator's own agent follows another, and has learned what is decided now, and who may lead.
struct Learned {
  Decree decree;
  std::vector<Successor> successors;
  bool operator==(Learned const&) const = default;
};
/// This coordinator decides nothing any more; its own agent has to look for another.
struct SteppedDown {
  std::string why;
  std::uint64_t campaign_id = 0;  ///< the last one it has heard of: whoever has campaigned again since is not meant
  bool operator==(SteppedDown const&) const = default;
};

}  // namespace cxxrun::rendezvous
