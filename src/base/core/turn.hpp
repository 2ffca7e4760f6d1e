// BasicTurn and BasicStep: what all state machines have in common, and the lines that they log. Pure.
//
// A machine is a function `step(state, event, now, policy)`. Its parts work on one turn: they change the state there
// and collect actions and log lines. src/base/os/state_machine.hpp is the loop around it.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun {

/// How important a line of the log is.
enum class Level {
  debug,  ///< routine: votes, ignored messages
  info,   ///< what happens to the job
  warn,   ///< something was lost, but the job goes on
  error,  ///< something failed, or a person must act
};

/// A line for the log, from pure code for a shell to write.
struct Line {
  Level level = Level::info;
  std::string text;
  char const* kind = nullptr;  ///< set when callers can cause such lines at will: only a few of a kind are logged
  bool operator==(Line const&) const = default;
};

template <class State, class Action>
struct BasicStep {
  State next;
  std::vector<Action> actions;  ///< to perform in this order
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

/// The earliest of the instants that are set.
[[nodiscard]] inline std::optional<TimePoint> earliest(std::initializer_list<std::optional<TimePoint>> instants) {
  std::optional<TimePoint> first;
  for (auto const& at : instants) {
    if (at && (!first || *at < *first)) {
      first = at;
    }
  }
  return first;
}

/// Whether the instant is set and has come.
[[nodiscard]] inline bool is_due(std::optional<TimePoint> const& at, TimePoint now) {
  return at && *at <= now;
}

}  // namespace cxxrun
