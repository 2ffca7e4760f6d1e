// Lease: how long workers may run without an answer from the coordinator, and how long it may grant that. Pure.
// The arithmetic, and the reason for each term: docs/design/election.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "rendezvous/values/decree.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Durations derived from --heartbeat-timeout T. L holds at least six h, and F is at most T.
struct LeaseTerms {
  Millis timeout{5000};  ///< T: a member silent for longer is lost
  Millis lease{4000};    ///< L = 0.8 T: how long authority and leases last from the send time that they rest on
  Millis beat{500};      ///< h = T / 10: interval of a member's beats
  Millis kill{950};      ///< K = 0.19 T: from the end of the lease to the end of the last descendant
  Millis fence{5000};    ///< F = (L + K)(1 + rho)/(1 - rho), rounded up: a member silent for F has no live workers
  /// When a silent peer is lost. A beat is due every h, so h / 2 more makes T the average.
  [[nodiscard]] constexpr Millis silence() const { return timeout + beat / 2; }
};
/// For a timeout of 0, which turns heartbeats off, all are 0: there are no leases.
[[nodiscard]] LeaseTerms lease_terms(Millis heartbeat_timeout);

/// The coordinator's side: what its authority over a generation rests on.
struct Authority {
  std::map<std::uint32_t, TimePoint> echoed;  ///< by group rank: newest own send time that the member echoed
};
/// A member has echoed `own_send_time`. Older than the known one: no effect.
void echoed(Authority& authority, std::uint32_t group_rank, TimePoint own_send_time);
/// When authority ends: the newest send time echoed by a quorum of `decree`, plus L. Nothing: there never was a quorum.
/// Under Tie::none, and without leases, TimePoint::max().
[[nodiscard]] std::optional<TimePoint> authority_until(Authority const& authority, Decree const& decree,
                                                       LeaseTerms const& terms);

/// The end of a member's lease by one answer: its own send time that the answer echoes, plus the authority left.
[[nodiscard]] constexpr TimePoint lease_until(TimePoint own_send_time, Millis left) {
  return own_send_time + left;
}

}  // namespace cxxrun::rendezvous
