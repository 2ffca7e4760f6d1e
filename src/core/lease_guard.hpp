// LeaseGuard: when the parent of an agent stops workers whose lease has run out. Pure.
//
// The agent does it first; this is for an agent that hangs or is frozen (SIGSTOP). A guard that finds its own wake-up
// late was suspended itself, together with everything here and perhaps with everybody elsewhere: then workers are only
// frozen, and the agent has the timeout to bring a new lease (docs/election.md).
#pragma once

#include <optional>

#include "src/core/time.hpp"

namespace cxxrun {

/// Constant while leases are held. Zero: there are none.
struct LeaseGuardTerms {
  Millis lease{0};    ///< how long one lasts
  Millis timeout{0};  ///< frozen for longer: killed
};

struct LeaseGuard {
  std::optional<TimePoint> wake;  ///< when `look` is to be called again, at the latest
  std::optional<TimePoint> excused_until;
  std::optional<TimePoint> frozen_until;
  bool killed = false;
};

enum class Enforce { nothing, freeze, thaw, kill };

struct GuardStep {
  LeaseGuard next;
  Enforce what = Enforce::nothing;
};

/// `until`: the lease as it stands, nothing when none is needed. Kill is repeated as long as the lease is over.
[[nodiscard]] GuardStep look(LeaseGuard guard, std::optional<TimePoint> until, TimePoint now,
                             LeaseGuardTerms const& terms);

}  // namespace cxxrun
