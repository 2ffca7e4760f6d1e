// The life of one agent: what it does about messages from the coordinator, ends of workers and signals. Pure.
//
// The shell (agent.cpp) makes Events, calls `step`, performs the Actions in order and logs the reason. The table is
// in docs/design/agent.md; a test walks every (life, event) pair.
#pragma once

#include "launcher/life/agent_state.hpp"
#include "src/core/turn.hpp"

namespace cxxrun::launcher::agent {

using Step = BasicStep<State, Action>;

[[nodiscard]] Step step(State state, Event const& event, TimePoint now, Policy const& policy);

}  // namespace cxxrun::launcher::agent
