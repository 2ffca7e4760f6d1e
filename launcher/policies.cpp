#include "launcher/policies.hpp"

#include <algorithm>

namespace cxxrun::launcher {
namespace {

// Under Slurm containers start unevenly; elsewhere late nodes simply enter the running job.
constexpr Millis kSlurmJoinWindow{60'000};
// Beyond the longest stop: an agent that has not reported by then is not going to.
constexpr Millis kStopSlack{10'000};

}  // namespace

rendezvous::Policy membership_policy(Options const& options, JobTopology const& topology) {
  rendezvous::Policy policy;
  policy.min_nodes = topology.min_nodes;
  policy.max_nodes = topology.max_nodes;
  policy.expected_nodes = topology.expected_nodes;
  policy.max_restarts = options.max_restarts;
  policy.join_timeout = options.join_timeout;
  if (topology.source == JobTopology::Source::slurm) {
    policy.join_window = kSlurmJoinWindow;
  }
  if (options.join_window) {
    policy.join_window = *options.join_window;
    policy.rejoin_window = *options.join_window;
  }
  policy.stop_timeout = std::max(options.shutdown_timeout, options.restart_timeout) + options.kill_timeout + kStopSlack;
  return policy;
}

agent::Policy agent_policy(Options const& options) {
  agent::Policy policy;
  policy.shutdown_timeout = options.shutdown_timeout;
  policy.restart_timeout = options.restart_timeout;
  policy.kill_timeout = options.kill_timeout;
  return policy;
}

}  // namespace cxxrun::launcher
