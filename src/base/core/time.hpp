// The clock of all decisions: CLOCK_BOOTTIME, which does not jump with the wall clock.
//
// Unlike CLOCK_MONOTONIC it goes on while the machine is suspended: a lease that is over on other machines must be over
// here after a resume. There is one clock only, because instants are compared across threads and processes. Asio's
// timers on it: boost::asio::basic_waitable_timer<Clock>.
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

/// Practically for ever, but short enough to compute a deadline with.
inline constexpr Millis kForever = std::chrono::hours(24 * 365);

/// The time left, for functions that take no deadline: rounded up, at least 1 ms.
[[nodiscard]] inline Millis left_until(TimePoint deadline) {
  return std::max(Millis(1), std::chrono::ceil<Millis>(deadline - Clock::now()));
}

}  // namespace cxxrun
