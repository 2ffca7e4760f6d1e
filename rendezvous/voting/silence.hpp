// Silence: the failure detector for peers that send nothing any more. Pure.
//
// A FIN or RST is an event of its own. This is for the rest: lost power, a cut link, a frozen host. The shell reports
// signs of life (`heard`), calls `tick` at `due`, and treats the peers that it returns as lost. `due` is the instant at
// which the next peer may be lost, or sooner, so that a suspension of this process shows as a late tick.
// Cost: `heard` O(log N), `tick` O(N).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/values/connection.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

struct SilencePolicy {
  Millis timeout{5000};  ///< 0: no peer is ever lost
  /// How long a lost peer was silent. A beat is due every tenth of the timeout; half of that more makes it the average.
  [[nodiscard]] Millis limit() const { return timeout + timeout / 20; }
  /// The longest time between two ticks.
  [[nodiscard]] Millis period() const { return std::max(timeout / 5, Millis{20}); }
};

struct SilenceState {
  std::map<AgentId, TimePoint> heard;  ///< watched peers, and when each was last heard
  std::optional<TimePoint> due;        ///< when to call `tick`; unset: no peer is watched
};

struct SilenceTick {
  std::vector<AgentId> lost;  ///< not watched any more
  bool stalled = false;       ///< the tick came late: this process was suspended, so no peer is lost
};

/// A sign of life. A peer is watched from its first one on.
void heard(SilenceState& state, AgentId peer, TimePoint now, SilencePolicy const& policy);
/// Stops watching a peer that is gone for another reason.
void forget(SilenceState& state, AgentId peer);
[[nodiscard]] SilenceTick tick(SilenceState& state, TimePoint now, SilencePolicy const& policy);

}  // namespace cxxrun::rendezvous
