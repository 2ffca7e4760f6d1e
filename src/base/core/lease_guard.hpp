// LeaseGuard: the agent's parent freezes and kills workers whose lease has run out, if the agent itself does not. Pure;
// the rules are in docs/design/supervision.md.
#pragma once

#include <algorithm>
#include <optional>

#include "src/base/core/time.hpp"

namespace cxxrun {

/// Constant while leases are held. Zero: no leases.
struct LeaseGuardTerms {
  Millis lease{0};    ///< how long a lease lasts
  Millis timeout{0};  ///< workers frozen for longer are killed
};

struct LeaseGuard {
  std::optional<TimePoint> wake;  ///< the latest time to call `look` again
  std::optional<TimePoint> frozen_until;
  bool killed = false;
};

enum class Enforce { nothing, freeze, thaw, kill };

struct GuardStep {
  LeaseGuard next;
  Enforce what = Enforce::nothing;
};

/// `until`: the end of the lease, nothing when none is needed. While the lease is over, the answer is freeze at each
/// look, later kill. Thaw: a new lease has come, and the workers that this guard froze may run.
[[nodiscard]] inline GuardStep look(LeaseGuard guard, std::optional<TimePoint> until, TimePoint now,
                                    LeaseGuardTerms const& terms) {
  // The agent should act first, because it can log the reason. Short enough that the parent still acts within K
  // (docs/design/election.md).
  Millis const head_start = terms.lease / 10;
  // How often to look while a lease is over: processes that have started since are frozen by the next look.
  Millis const period = std::max(terms.lease / 8, Millis{1});
  bool const suspended = guard.wake && now > *guard.wake + terms.lease / 2;
  if (!until || now < *until + head_start) {
    bool const thaw = guard.frozen_until && !guard.killed;
    guard = {};
    if (until) {
      guard.wake = *until + head_start;
    }
    return {guard, thaw ? Enforce::thaw : Enforce::nothing};
  }
  if (!guard.frozen_until || (suspended && !guard.killed)) {
    guard.frozen_until = now + terms.timeout + head_start;
  }
  guard.killed = guard.killed || now >= *guard.frozen_until;
  guard.wake = now + period;
  if (!guard.killed) {
    guard.wake = std::min(*guard.wake, *guard.frozen_until);
  }
  return {guard, guard.killed ? Enforce::kill : Enforce::freeze};
}

}  // namespace cxxrun
