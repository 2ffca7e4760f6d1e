// Agent: the shell that runs one node's part of the job, and the coordinator when this node hosts it.
//
// Owns the io_context and everything on it. Must run on the process's main thread, under the monitor
// (src/base/os/monitor.hpp). Decisions are agent_fsm's, membership's and signal_policy's.
#pragma once

#include "launcher/agent/agent_config.hpp"

namespace cxxrun::os {
struct AgentSide;
}

namespace cxxrun::launcher {

/// Runs the agent to its end and returns the exit code of cxxrun.
[[nodiscard]] int run_agent(AgentConfig config, os::AgentSide const& side);

}  // namespace cxxrun::launcher
