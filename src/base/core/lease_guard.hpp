// LeaseGuard: what the parent of an agent does about workers whose lease has run out, after the agent. Pure; the rules
// are in docs/design/supervision.md.
#pragma once

#include <algorithm>
#include <optional>

#include "src/base/core/time.hpp"

namespace cxxrun {

/// Constant while leases are held. Zero: there are none.
struct LeaseGuardTerms {
  Millis lease{0};    ///< how long one lasts
  Millis timeout{0};  ///< frozen for longer: killed
};

struct LeaseGuard {
  std::optional<TimePoint> wake;  ///< when `look` is to be called again, at the latest
  std::optional<TimePoint> frozen_until;
  bool killed = false;
};

enum class Enforce { nothing, freeze, thaw, kill };

struct GuardStep {
  LeaseGuard next;
  Enforce what = Enforce::nothing;
};

/// `until`: the lease as it stands, nothing when none is needed. Freeze, then kill, are repeated as long as it is over.
/// Thaw: a new one has come, and what this guard had frozen may run.
[[nodiscard]] inline GuardStep look(LeaseGuard guard, std::optional<TimePoint> until, TimePoint now,
                                    LeaseGuardTerms const& terms) {
  // The agent is to be first: it knows why. Short enough that what the parent does stays within K
  // (docs/design/election.md).
  Millis const head_start = terms.lease / 10;
  // While a lease is over: what has come to life meanwhile meets the next look.
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
