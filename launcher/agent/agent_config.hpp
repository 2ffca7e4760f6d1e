// AgentConfig: what one agent was started with.
#pragma once

#include <string>

#include "launcher/logs/log_names.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/cpu_plan.hpp"
#include "launcher/place/topology.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "rendezvous/trust/transports.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

struct AgentConfig {
  Options options;
  JobTopology topology;
  NodeFacts facts;
  CpuChoice cpus;
  LogRoot logs;                    ///< removed by whoever ends last, when it is temporary
  std::string sockets;             ///< directory where workers call this agent; removed in the same way
  Environment environment;         ///< what workers inherit
  std::string nonce;               ///< this agent's incarnation
  TimePoint join_until;            ///< with --join: until then the coordinator is looked for
  rendezvous::KeyTransports keys;  ///< how the job's key gets to other nodes
  bool colour = false;             ///< stderr takes it
};

}  // namespace cxxrun::launcher
