// Silence: who has not been heard of for too long. Pure.
//
// FIN and RST are events of their own: the process is gone. This is for the rest: power lost, link cut, host frozen.
// The shell says who was heard (`heard`), asks at `due` (`tick`) and treats those named as lost. `due` is the very
// instant at which the next one may be lost; in between it is asked often enough to notice that it was suspended.
// Cost: `heard` O(log N), `tick` O(N).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/values/agent_id.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

struct SilencePolicy {
  Millis timeout{5000};  ///< 0: nobody is ever judged
  /// Silent for so long: lost. A beat is due every tenth of the timeout, so half of that later on average.
  [[nodiscard]] Millis limit() const { return timeout + timeout / 20; }
  /// How often to look at least.
  [[nodiscard]] Millis period() const { return std::max(timeout / 5, Millis{20}); }
};

struct SilenceState {
  std::map<AgentId, TimePoint> heard;  ///< peers under watch, and when each was last heard
  std::optional<TimePoint> due;        ///< when `tick` is to be called; unset: nobody is under watch
};

struct SilenceTick {
  SilenceState next;
  std::vector<AgentId> lost;  ///< no longer under watch
  bool stalled = false;       ///< the tick came so late that nobody was judged
};

/// A sign of life. The first one of a peer puts it under watch.
[[nodiscard]] SilenceState heard(SilenceState state, AgentId peer, TimePoint now, SilencePolicy const& policy);
/// The peer is gone for another reason.
[[nodiscard]] SilenceState forget(SilenceState state, AgentId peer);
[[nodiscard]] SilenceTick tick(SilenceState state, TimePoint now, SilencePolicy const& policy);

}  // namespace cxxrun::rendezvous
