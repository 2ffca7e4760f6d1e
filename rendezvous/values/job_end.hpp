// JobEnd: when a job's time is up, one instant for all of its nodes (docs/use/signals.md). Pure.
#pragma once

#include <algorithm>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// By this host's clock.
struct JobEnd {
  TimePoint at;
  bool limit = false;  ///< that of --time-limit, so cxxrun ends the job; false: Slurm does
  bool operator==(JobEnd const&) const = default;
};

/// The same on its way to another host, whose clock shows something else.
struct TimeLeft {
  Millis left{0};
  bool limit = false;
  bool operator==(TimeLeft const&) const = default;
};

[[nodiscard]] inline TimeLeft time_left(JobEnd const& end, TimePoint now) {
  return {std::max(std::chrono::duration_cast<Millis>(end.at - now), Millis{0}), end.limit};
}
[[nodiscard]] inline JobEnd ends_after(TimeLeft const& time, TimePoint now) {
  return {now + time.left, time.limit};
}

}  // namespace cxxrun::rendezvous
