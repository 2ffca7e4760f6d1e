// Agent: runs one node's part of the job, and the coordinator if this node hosts it. Shell.
//
// Owns the io_context and everything on it. Must run on the main thread of the process, under the monitor
// (src/base/os/monitor.hpp). The decisions are made by agent::step() (launcher/life), by membership and by classify()
// (signal_policy.hpp).
#pragma once

#include "launcher/agent/agent_config.hpp"

namespace cxxrun::os {
struct AgentSide;
}

namespace cxxrun::launcher {

/// Runs the agent to its end, and returns the exit code of cxxrun.
[[nodiscard]] int run_agent(AgentConfig config, os::AgentSide const& side);

}  // namespace cxxrun::launcher
