// Steps: how far the workers of one generation came in their training, as an agent saw it and as it tells of it.
#pragma once

#include <algorithm>
#include <optional>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// When a worker completed the first training step of this generation, and when the newest one. `first` is not set when
/// none was; then `last` is the newest sign of life that a worker gave, if it gives any.
/// `checkpoints`: for how long these have held up the worker that they held up most, between the two; not set: nobody
/// has told of any.
template <class Time>
struct Steps {
  std::optional<Time> first;
  std::optional<Time> last;
  std::optional<Millis> checkpoints = {};
  bool operator==(Steps const&) const = default;
};
/// Instants of one clock.
using StepTimes = Steps<TimePoint>;
/// As it is told: how long ago that was. Two clocks have no other words in common.
using StepsAgo = Steps<Millis>;

[[nodiscard]] inline StepsAgo ago(StepTimes const& steps, TimePoint now) {
  auto const before = [now](std::optional<TimePoint> const& at) {
    return at ? std::optional(std::max(std::chrono::duration_cast<Millis>(now - *at), Millis{0})) : std::nullopt;
  };
  return {before(steps.first), before(steps.last), steps.checkpoints};
}
[[nodiscard]] inline StepTimes at(StepsAgo const& steps, TimePoint now) {
  auto const instant = [now](std::optional<Millis> const& before) {
    return before ? std::optional<TimePoint>(now - *before) : std::nullopt;
  };
  return {instant(steps.first), instant(steps.last), steps.checkpoints};
}
/// Of two nodes, or two workers: the first step of either, and the newest.
[[nodiscard]] inline StepTimes both(StepTimes const& a, StepTimes const& b) {
  StepTimes all;
  all.first = a.first && b.first ? std::min(*a.first, *b.first) : a.first ? a.first : b.first;
  // A sign of life counts only where no step does.
  bool const from_a = a.last && (a.first || !b.first);
  bool const from_b = b.last && (b.first || !a.first);
  all.last = from_a && from_b ? std::max(*a.last, *b.last) : from_a ? a.last : from_b ? b.last : std::nullopt;
  all.checkpoints = std::max(from_a ? a.checkpoints : std::nullopt, from_b ? b.checkpoints : std::nullopt);
  return all;
}

}  // namespace cxxrun::rendezvous
