// Lease: how long workers may run without word from the coordinator, and how long it may say so. Pure.
// The arithmetic, and why each term is there: docs/design/election.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "rendezvous/values/decree.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Durations that follow from --heartbeat-timeout T: h fits into L six times, and F into T.
struct LeaseTerms {
  Millis timeout{5000};  ///< T: silent for longer is lost
  Millis lease{4000};    ///< L = 0.8 T: authority and leases last this long from the send time they rest on
  Millis beat{500};      ///< h = T / 10: how often each member sends
  Millis kill{950};      ///< K = 0.19 T: from expiry to the end of the last descendant
  Millis fence{
      5000};  ///< F = (L + K)(1 + rho)/(1 - rho), rounded up: after this long a silent member's workers are dead
  /// Silent for longer is lost: a beat is due every h, so that on average T has passed since the last sign of life.
  [[nodiscard]] constexpr Millis silence() const { return timeout + beat / 2; }
};
/// Zero timeout (nobody is ever judged): zero throughout, no leases.
[[nodiscard]] LeaseTerms lease_terms(Millis heartbeat_timeout);

/// The coordinator's side: up to when it has authority over a generation.
struct Authority {
  std::map<std::uint32_t, TimePoint> echoed;  ///< by group rank: newest own send time that the member sent back
};
/// A member has sent back `own_send_time`. Older ones than known are no news.
[[nodiscard]] Authority echoed(Authority authority, std::uint32_t group_rank, TimePoint own_send_time);
/// A: newest send time echoed by enough members to keep `decree`, plus L. Nothing: never had a quorum.
/// Under Tie::none, and without leases, TimePoint::max().
[[nodiscard]] std::optional<TimePoint> authority_until(Authority const& authority, Decree const& decree,
                                                       LeaseTerms const& terms);

/// A member's lease from one answer: its own send time that the answer echoes, plus what the coordinator had left.
[[nodiscard]] constexpr TimePoint lease_until(TimePoint own_send_time, Millis left) {
  return own_send_time + left;
}

}  // namespace cxxrun::rendezvous
