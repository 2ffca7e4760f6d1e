// Workers of one generation, in the state after some events.
#pragma once

#include <chrono>
#include <csignal>
#include <utility>
#include <vector>

#include "launcher/workers/worker_group.hpp"

namespace cxxrun::launcher::testing {

using Actions = std::vector<GroupAction>;

inline TimePoint const kT0{};

/// A group that has seen these events, all at kT0.
inline GroupState after(std::vector<GroupEvent> const& events) {
  GroupState state;
  for (auto const& event : events) {
    state = step(std::move(state), event, kT0).next;
  }
  return state;
}

inline GroupState two_running() {
  return after({Begin{2}, Started{0, 10}, Started{1, 11}});
}

inline StopOrder order(std::chrono::milliseconds grace) {
  return {SIGTERM, true, grace, std::chrono::seconds{60}};
}

inline StopOrder parking() {
  StopOrder one = order(std::chrono::seconds{5});
  one.park = true;
  return one;
}

}  // namespace cxxrun::launcher::testing
