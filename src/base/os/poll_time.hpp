// How long poll and epoll may wait, in the milliseconds that they take.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "src/base/core/time.hpp"

namespace cxxrun::os {

/// Up to `deadline`, rounded up so that nobody wakes before it; 0 once it has passed, an hour at most: whoever waits
/// for longer looks again.
[[nodiscard]] inline int poll_time(TimePoint deadline) {
  constexpr std::int64_t kLongest = 3'600'000;
  auto const left = std::chrono::ceil<Millis>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest));
}

}  // namespace cxxrun::os
