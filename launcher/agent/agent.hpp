// Agent: the shell that runs one node's part of the job, and the coordinator when this node hosts it.
//
// Owns the io_context and everything on it. Must run on the process's main thread, under the undertaker
// (src/os/undertaker.hpp). Decisions are agent_fsm's, membership's and signal_policy's.
#pragma once

#include <string>

#include "launcher/logs/log_dir.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/cpu_plan.hpp"
#include "launcher/place/topology.hpp"
#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::os {
struct AgentSide;
}

namespace cxxrun::launcher {

struct AgentConfig {
  Options options;
  JobTopology topology;
  NodeFacts facts;
  CpuChoice cpus;
  LogRoot logs;             ///< removed by whoever ends last, when it is temporary
  Environment environment;  ///< what workers inherit
  std::string nonce;        ///< this agent's incarnation
  bool colour = false;      ///< stderr is a terminal
};

/// Runs the agent to its end and returns the exit code of cxxrun.
[[nodiscard]] int run_agent(AgentConfig config, os::AgentSide const& side);

}  // namespace cxxrun::launcher
