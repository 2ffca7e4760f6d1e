// The clock of every decision: CLOCK_BOOTTIME, which no jump of the wall clock moves.
//
// It runs on while the machine is suspended, as CLOCK_MONOTONIC does not: a lease that is over elsewhere must be over
// here when the machine comes back. One clock for all, since instants are compared across cores and processes.
// Asio's timers over it: boost::asio::basic_waitable_timer<Clock>.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace cxxrun {

struct Clock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<Clock>;
  static constexpr bool is_steady = true;  // NOLINT(readability-identifier-naming): every clock of std::chrono has it

  static time_point now() noexcept {
    timespec time{};
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec});
  }
};

using TimePoint = Clock::time_point;
using Millis = std::chrono::milliseconds;

/// As good as for ever, and a deadline can still be calculated with it.
inline constexpr Millis kForever = std::chrono::hours(24 * 365);

/// For who is told a time instead of a deadline: rounded up, and 1 ms at least.
[[nodiscard]] inline Millis left_until(TimePoint deadline) {
  return std::max(Millis(1), std::chrono::ceil<Millis>(deadline - Clock::now()));
}

}  // namespace cxxrun
