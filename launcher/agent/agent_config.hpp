// AgentConfig: what one agent was started with, and what that means for the run, for the agent's calls and state
// machine, and for the exit code. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/facts/deadlines.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/options/options.hpp"
#include "launcher/place/cpu_plan.hpp"
#include "launcher/place/topology.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "rendezvous/net/probing.hpp"
#include "rendezvous/trust/grant.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

struct AgentConfig {
  Options options;
  JobTopology topology;
  NodeFacts facts;
  CpuChoice cpus;
  LogRoot logs;                    ///< if temporary, removed by the last process of the node to end
  std::string sockets;             ///< directory of the sockets that workers connect to; removed in the same way
  Environment environment;         ///< what workers inherit
  std::string nonce;               ///< this agent's incarnation
  TimePoint join_until;            ///< with --join: when the search for the coordinator ends
  EndPlan end;                     ///< when the job ends, as known at the start
  rendezvous::KeyTransports keys;  ///< how the job's key gets to other nodes
  bool colour = false;             ///< stderr shows colours
};

/// The terms that this agent proposes for its run.
[[nodiscard]] rendezvous::Terms terms_of(AgentConfig const& config);
/// Where this agent calls, and as whom. `hosted`: port of the coordinator inside this agent, if there is one.
[[nodiscard]] rendezvous::CallPlan call_plan(AgentConfig const& config, std::optional<std::uint16_t> hosted);
/// Whether a Slurm step was told to meet at an IP address, which may belong to none of its nodes. If so, the other
/// agents also call the step's first agent at the same ports, and that one reports the mistake (refusing.hpp).
[[nodiscard]] bool may_be_of_no_node(JobTopology const& topology);
/// Whether this is the agent of the step's first task.
[[nodiscard]] bool is_first_of_step(JobTopology const& topology);
/// The plan to call the coordinator that `topology.discovered` names. It may be gone.
[[nodiscard]] rendezvous::CallPlan discovered_plan(AgentConfig const& config);
/// The plan of an agent that was dropped, and joins its run again with a new incarnation.
[[nodiscard]] rendezvous::CallPlan rejoin_plan(AgentConfig const& config, agent::Rejoin const& how);
/// The error that ends an agent whose call by discovered_plan() failed. Nothing: only the coordinator is gone, and the
/// agent meets the others as if there were no discovery file.
[[nodiscard]] std::optional<Error> discovered_failure(AgentConfig const& config, Error const& error);
/// `slurm`: nothing outside a Slurm job.
[[nodiscard]] agent::Policy agent_policy(Options const& options, JobTopology const& topology = {},
                                         std::optional<SlurmConf> const& slurm = std::nullopt);
/// Sets the beats and leases of the run that the agent has joined. A run of one node has none.
void adopt_heartbeats(agent::Policy& policy, JobTopology const& topology, Millis heartbeat_timeout);
/// How long the port of the store stays taken after this agent has died, because workers of other nodes may outlive it:
/// until their leases end; without leases, while the agent is called again, and for the grace of the workers after
/// that.
[[nodiscard]] Millis hold_of_ports(agent::Policy const& policy, JobTopology const& topology);
/// Grace of the workers when the whole job ends: the user's, but within what Slurm leaves. There must be time between
/// our SIGKILL and Slurm's to reap, to report and to ask for a requeue: a tenth of KillWait, at least 2 s.
[[nodiscard]] Millis end_timeout(Millis shutdown_timeout, Millis kill_wait);

/// A log line: why the other ranks wait until a dead rank is restarted, although the program asked them not to.
/// "": they do not wait.
[[nodiscard]] std::string why_no_shrink(Options const& options, JobTopology const& topology);

/// The exit code of cxxrun. `instead` has precedence: the code of a job that is not requeued, which its verdict cannot
/// know. Then `failed`: this agent could not take part. Then `exit`: its life has ended. With none of them it was
/// stopped half-way. Who decides the code: docs/use/exit_codes.md.
[[nodiscard]] int exit_code(std::optional<Error> const& failed, std::optional<agent::Exit> const& exit,
                            std::optional<int> instead);

}  // namespace cxxrun::launcher
