// Membership: decides who is in which generation. Pure: no clock, socket, process or log.
//
// The coordinator's shell (coordinator.cpp, run.cpp) turns connections, frames and timers into Events, calls `step`,
// performs the Actions in order and logs the lines. The table of states and transitions is in
// docs/design/membership.md; a test walks every (phase, event) pair of it.
//
// Cost: a join, ack, stop or loss is O(log N) of N agents. `step` takes the state by value: move it in.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/history/policy.hpp"
#include "rendezvous/membership/events.hpp"
#include "rendezvous/membership/state.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {

struct Step : BasicStep<State, Action> {
  std::vector<story::Event> story;
};

/// Why a Wanted would be ignored now; "": it would not.
[[nodiscard]] std::string objection(State const& state, Wanted const& wanted, Policy const& policy);

[[nodiscard]] Step step(State state, Event const& event, TimePoint now, Policy const& policy);

}  // namespace cxxrun::rendezvous
