// Progress of workers, as an agent sees it and reports it: training steps, stalled collectives, peers given up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/worker/page_values.hpp"

namespace cxxrun::rendezvous {

/// When the first and the newest training step of a generation were completed. `first` is unset if there was no step;
/// then `last` is the workers' newest sign of life, if any.
/// `checkpoints`: how long checkpoints held up the worker that they held up most, between the two; unset: none
/// reported.
template <class Time>
struct Steps {
  std::optional<Time> first;
  std::optional<Time> last;
  std::optional<Millis> checkpoints = {};
  bool operator==(Steps const&) const = default;
};
/// As instants of this process's clock.
using StepTimes = Steps<TimePoint>;
/// As sent to other nodes: how long ago, since clocks of two nodes cannot be compared.
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
/// Of two nodes or two workers together: the earlier first step and the later newest step.
[[nodiscard]] inline StepTimes both(StepTimes const& a, StepTimes const& b) {
  StepTimes all;
  all.first = a.first && b.first ? std::min(*a.first, *b.first) : a.first ? a.first : b.first;
  // A sign of life counts only if neither has completed a step.
  bool const from_a = a.last && (a.first || !b.first);
  bool const from_b = b.last && (b.first || !a.first);
  all.last = from_a && from_b ? std::max(*a.last, *b.last) : from_a ? a.last : from_b ? b.last : std::nullopt;
  all.checkpoints = std::max(from_a ? a.checkpoints : std::nullopt, from_b ? b.checkpoints : std::nullopt);
  return all;
}

/// A worker that stalled for this long is reported, whatever --hang-timeout is.
inline constexpr Millis kStandstillShown{60'000};

/// A worker whose collectives have not moved for a while.
struct Standstill {
  std::uint32_t rank = 0;
  std::uint64_t entered = 0;  ///< collectives begun on the generation's first Communicator
  std::uint64_t done = 0;     ///< collectives completed; less than `entered`: it is inside the last one
  std::uint32_t what = 0;     ///< worker::packed() of the last collective it began
  std::uint64_t count = 0;    ///< elements of that collective
  Millis still{0};            ///< how long neither counter has changed; 0: it moves again, or is gone
  bool halted = false;        ///< its process is stopped (SIGSTOP, or a debugger)
  bool idle = false;          ///< no collective is under way in any group; false: one is, or it is not known
  std::vector<worker::GroupCount> groups = {};  ///< PyTorch groups other than the default one
  bool operator==(Standstill const&) const = default;
};

/// A parked worker, and the peer that it gave up.
struct Named {
  std::uint32_t rank = 0;
  worker::Loss lost;
  bool operator==(Named const&) const = default;
};

}  // namespace cxxrun::rendezvous
