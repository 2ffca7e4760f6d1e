#include "src/core/lease_guard.hpp"

#include <algorithm>

namespace cxxrun {
namespace {

// The agent is to be first: it knows why. Short enough that what the parent does stays within K
// (docs/design/election.md).
Millis head_start(LeaseGuardTerms const& terms) {
  return terms.lease / 10;
}

// While a lease is over: what has come to life meanwhile meets the next look.
Millis period(LeaseGuardTerms const& terms) {
  return std::max(terms.lease / 8, Millis{1});
}

}  // namespace

GuardStep look(LeaseGuard guard, std::optional<TimePoint> until, TimePoint now, LeaseGuardTerms const& terms) {
  bool const suspended = guard.wake && now > *guard.wake + terms.lease / 2;
  if (!until || now < *until + head_start(terms)) {
    bool const thaw = guard.frozen_until && !guard.killed;
    guard = {};
    if (until) {
      guard.wake = *until + head_start(terms);
    }
    return {guard, thaw ? Enforce::thaw : Enforce::nothing};
  }
  if (!guard.frozen_until || (suspended && !guard.killed)) {
    guard.frozen_until = now + terms.timeout + head_start(terms);
  }
  guard.killed = guard.killed || now >= *guard.frozen_until;
  guard.wake = now + period(terms);
  if (!guard.killed) {
    guard.wake = std::min(*guard.wake, *guard.frozen_until);
  }
  return {guard, guard.killed ? Enforce::kill : Enforce::freeze};
}

}  // namespace cxxrun
