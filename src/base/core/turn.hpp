// BasicTurn and BasicStep: what the state machines have in common. Pure.
//
// A machine is a function `step(state, event, now, policy)`. While it runs, its parts change the state of one turn and
// collect there what is to be done and said; src/base/os/machine.hpp is the loop around it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/core/level.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun {

template <class State, class Action>
struct BasicStep {
  State next;
  std::vector<Action> actions;  ///< to be performed in this order
  std::vector<Line> said;       ///< for the log
};

/// One call of `step` in progress.
template <class State, class Action, class Policy>
struct BasicTurn {
  State& state;
  std::vector<Action>& actions;
  std::vector<Line>& said;
  TimePoint now;
  Policy const& policy;

  void act(Action action) { actions.push_back(std::move(action)); }
  void say(Level level, std::string text, char const* kind = nullptr) {
    said.push_back({level, std::move(text), kind});
  }
};

/// The first of these instants; those that are not set do not count.
[[nodiscard]] inline std::optional<TimePoint> earliest(std::initializer_list<std::optional<TimePoint>> instants) {
  std::optional<TimePoint> first;
  for (auto const& at : instants) {
    if (at && (!first || *at < *first)) {
      first = at;
    }
  }
  return first;
}

/// Whether an instant is set and has come.
[[nodiscard]] inline bool is_due(std::optional<TimePoint> const& at, TimePoint now) {
  return at && *at <= now;
}

}  // namespace cxxrun
