// Leases: what the coordinator's authority rests on, and whose workers may run by it. Part of membership's State.
// The arithmetic: voting/lease.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "rendezvous/membership/election.hpp"
#include "rendezvous/voting/lease.hpp"

namespace cxxrun::rendezvous {

/// What the beats and acks of one agent have brought.
struct Pulse {
  std::optional<TimePoint> echo;  ///< newest own send time that it sent back
  std::int64_t sent = 0;          ///< newest send time of its own: what its first lease rests on
};

struct Leases {
  Authority authority;                  ///< echoes, by group rank of the last decree
  std::optional<TimePoint> until;       ///< authority as last counted; never more than it is
  std::optional<TimePoint> counted_at;  ///< when that was
  std::optional<TimePoint> check_at;    ///< authority may have run out at
  std::map<AgentId, Pulse> pulses;
  std::map<AgentId, TimePoint> granted;  ///< when each agent was last sent a lease
  /// Seats whose workers may still run, and when they cannot any more even if nothing is heard: the lease wait before
  /// Start.
  std::map<Held, TimePoint> outstanding;
};

/// When Start may be sent: now (nothing), or when the last outstanding lease has ended.
[[nodiscard]] inline std::optional<TimePoint> lease_wait(Leases const& leases, TimePoint now) {
  std::optional<TimePoint> latest;
  for (auto const& [held, at] : leases.outstanding) {
    if (at > now) {
      latest = std::max(latest.value_or(at), at);
    }
  }
  return latest;
}

}  // namespace cxxrun::rendezvous
