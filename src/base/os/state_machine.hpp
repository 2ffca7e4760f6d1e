// Machine: the loop around a state machine: event → step → log lines → actions. Shell.
//
// Which step() is called follows from the type of `State`: the comment at each Machine names the file.
//
// `Shell` has say(line) for each line, stepped() after them, perform(action) for each action, and policy(); and
// record(event) if the steps have a story. An event that is fed during a step waits until the actions of that step have
// been performed. One thread.
#pragma once

#include <deque>
#include <utility>
#include <variant>

#include "src/base/core/time.hpp"

namespace cxxrun::os {

template <class State, class Event>
class Machine {
 public:
  State state;

  template <class Shell>
  void feed(Event event, Shell& shell) {
    inbox_.push_back(std::move(event));
    if (std::exchange(stepping_, true)) {
      return;
    }
    while (!inbox_.empty()) {
      Event const next = std::move(inbox_.front());
      inbox_.pop_front();
      auto result = step(std::move(state), next, Clock::now(), shell.policy());
      state = std::move(result.next);
      for (auto const& line : result.said) {
        shell.say(line);
      }
      if constexpr (requires { result.story; }) {
        for (auto const& told : result.story) {
          shell.record(told);
        }
      }
      shell.stepped();
      for (auto& action : result.actions) {
        std::visit([&shell](auto& concrete) { shell.perform(concrete); }, action);
      }
    }
    stepping_ = false;
  }
  /// Drops the events that wait.
  void end() { inbox_.clear(); }

 private:
  std::deque<Event> inbox_;
  bool stepping_ = false;
};

}  // namespace cxxrun::os
