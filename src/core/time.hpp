// The clock of every decision: monotonic, never the wall clock.
#pragma once

#include <chrono>

namespace cxxrun {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Millis = std::chrono::milliseconds;

}  // namespace cxxrun
