#include "src/core/lease_guard.hpp"

#include <algorithm>

namespace cxxrun {
namespace {

// The agent is to be first: it knows why its workers die. Short enough that the kill stays within K (docs/election.md).
Millis head_start(LeaseGuardTerms const& terms) {
  return terms.lease / 10;
}

// Often enough that a suspension which outlasts a lease cannot look like a wake-up in time.
Millis period(LeaseGuardTerms const& terms) {
  return std::max(terms.lease / 8, Millis{1});
}

}  // namespace

GuardStep look(LeaseGuard guard, std::optional<TimePoint> until, TimePoint now, LeaseGuardTerms const& terms) {
  if (guard.wake && now > *guard.wake + terms.lease / 2) {
    guard.excused_until = now + terms.lease;
  }
  if (!until || now < *until + head_start(terms)) {
    bool const thaw = guard.frozen_until && !guard.killed;
    guard.frozen_until.reset();
    guard.killed = false;
    guard.wake.reset();
    if (until) {
      guard.wake = std::min(*until + head_start(terms), now + period(terms));
    }
    return {guard, thaw ? Enforce::thaw : Enforce::nothing};
  }
  guard.wake = now + period(terms);
  if (!guard.frozen_until && guard.excused_until && now < *guard.excused_until && !guard.killed) {
    guard.frozen_until = now + terms.timeout;
    return {guard, Enforce::freeze};
  }
  if (guard.frozen_until && now < *guard.frozen_until && !guard.killed) {
    return {guard, Enforce::nothing};
  }
  guard.killed = true;
  return {guard, Enforce::kill};
}

}  // namespace cxxrun
