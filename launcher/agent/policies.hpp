// Policies: what the options mean for the coordinator and for the agent. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/agent/agent_config.hpp"
#include "launcher/facts/deadlines.hpp"
#include "launcher/life/agent_state.hpp"
#include "rendezvous/net/call_plan.hpp"

namespace cxxrun::launcher {

/// What this agent brings to its run.
[[nodiscard]] rendezvous::Terms terms_of(AgentConfig const& config);
/// Where and as whom the agent calls. `hosted`: the port of the coordinator inside this agent, when it hosts.
[[nodiscard]] rendezvous::CallPlan call_plan(AgentConfig const& config, std::optional<std::uint16_t> hosted);
/// Whether the agents of a Slurm step were told to meet at an address by number, which none of its nodes may have. Then
/// the others call the step's first agent as well (at the same port), which is the one to say so.
[[nodiscard]] bool may_be_of_no_node(JobTopology const& topology);
/// Whether this is the agent of the step's first task.
[[nodiscard]] bool is_first_of_step(JobTopology const& topology);
/// The same for the coordinator that `topology.discovered` says, which may be gone.
[[nodiscard]] rendezvous::CallPlan discovered_plan(AgentConfig const& config);
/// The same for an agent that was dropped and comes back as another one, to the run that it had joined.
[[nodiscard]] rendezvous::CallPlan rejoin_plan(AgentConfig const& config, agent::Rejoin const& how);
/// What ends an agent whose call by discovered_plan() has failed; nothing: the coordinator is gone, and the agent may
/// open the run itself, or look where another one coordinates (joining.hpp).
[[nodiscard]] std::optional<Error> discovered_failure(AgentConfig const& config, Error const& error);
/// `slurm`: nothing when this is no job of Slurm's.
[[nodiscard]] agent::Policy agent_policy(Options const& options, JobTopology const& topology = {},
                                         std::optional<SlurmConf> const& slurm = std::nullopt);
/// Beats and leases of the run that the agent has joined; none in a run of one node.
void adopt_heartbeats(agent::Policy& policy, JobTopology const& topology, Millis heartbeat_timeout);
/// How long workers of other nodes may outlive the agent that serves their store: until their leases are over, or
/// without leases while it is called again, and the grace that they are given then.
[[nodiscard]] Millis hold_of_ports(agent::Policy const& policy, JobTopology const& topology);
/// How long workers may take when the job ends: what the user gives, but no longer than Slurm leaves. Between our
/// SIGKILL and Slurm's there is time to reap, to report and to ask for a requeue: a tenth of KillWait, at least 2 s.
[[nodiscard]] Millis end_timeout(Millis shutdown_timeout, Millis kill_wait);

/// Why the others wait for the node of a rank that has died, although its program asked them not to: a line for the
/// log;
/// "": they go on.
[[nodiscard]] std::string why_no_shrink(Options const& options, JobTopology const& topology);

/// What cxxrun ends with: `failed` when this agent could not take part, else `exit` when its life has come to an end,
/// else it was stopped half-way. `instead`: of the job that is not to be requeued, which its verdict cannot know.
[[nodiscard]] int exit_code(std::optional<Error> const& failed, std::optional<agent::Exit> const& exit,
                            std::optional<int> instead);

}  // namespace cxxrun::launcher
