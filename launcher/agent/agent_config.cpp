#include "launcher/agent/agent_config.hpp"

#include <algorithm>

#include "rendezvous/values/verdict.hpp"
#include "src/base/core/endpoint.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::Tie;
using Asks = rendezvous::Hello::Asks;

// Under Slurm the containers of a step start unevenly. Elsewhere a late node simply enters the running job.
constexpr Millis kSlurmJoinWindow{60'000};
// Added to the longest stop. An agent that has not reported by then never will.
constexpr Millis kStopSlack{10'000};
// The writer of a discovery file already listens.
constexpr Millis kDiscoveryPatience{5'000};
constexpr Millis kLeastMargin{2'000};
// Usual time from SIGKILL to the end of the last worker.
constexpr Millis kReapSlack{1'000};

Tie tie_of(Options const& options) {
  return options.quorum == Quorum::none ? Tie::none : options.fence_dir.empty() ? Tie::rank : Tie::fence;
}

bool is_alone(JobTopology const& topology) {
  return topology.max_nodes == 1 && topology.source != JobTopology::Source::join;
}

int code_of(Error const& error) {
  switch (error.code) {
    case Errc::usage:
    case Errc::not_found:
    case Errc::refused: return kExitUsage;
    case Errc::timeout: return kExitTooFewNodes;
    case Errc::closed: return kExitCoordinatorLost;
    default: return kExitSystem;
  }
}

}  // namespace

rendezvous::Terms terms_of(AgentConfig const& config) {
  Options const& options = config.options;
  JobTopology const& topology = config.topology;
  rendezvous::Terms terms = options.terms;
  terms.min_nodes = topology.min_nodes;
  terms.max_nodes = topology.max_nodes;
  terms.expected_nodes = topology.expected_nodes;
  if (topology.source == JobTopology::Source::slurm) {
    terms.join_window = kSlurmJoinWindow;
  }
  if (options.join_window) {
    terms.join_window = *options.join_window;
    terms.rejoin_window = *options.join_window;
  }
  terms.stop_timeout = std::max(options.shutdown_timeout, options.restart_timeout) + options.kill_timeout + kStopSlack;
  if (!options.health_check.empty()) {  // a member whose check hangs answers once the check is killed
    terms.ack_timeout += options.health_check_timeout + options.kill_timeout;
  }
  terms.tie = tie_of(options);
  terms.fence_dir = options.fence_dir;
  terms.master_port = topology.master_port;
  return terms;
}

bool may_be_of_no_node(JobTopology const& topology) {
  return topology.source == JobTopology::Source::slurm && topology.max_nodes > 1 && !topology.node_names.empty() &&
         topology.meeting.host == Meeting::Host::find_out && is_ip_literal(topology.meeting.address);
}

bool is_first_of_step(JobTopology const& topology) {
  return topology.node_index == 0U && (!topology.task || topology.task->process == 0);
}

rendezvous::CallPlan call_plan(AgentConfig const& config, std::optional<std::uint16_t> hosted) {
  JobTopology const& topology = config.topology;
  Meeting const& meeting = topology.meeting;
  rendezvous::CallPlan plan;
  bool const here = meeting.loopback_only || (hosted && meeting.host == Meeting::Host::me);
  plan.addresses = here ? config.facts.loopbacks : std::vector{meeting.address};
  if (!hosted && may_be_of_no_node(topology) && !is_first_of_step(topology)) {
    plan.addresses.push_back(topology.node_names.front());
  }
  plan.ports = hosted ? std::vector{*hosted} : meeting.hidden;
  if (!hosted) {
    plan.ports.insert(plan.ports.end(), meeting.ports.begin(), meeting.ports.end());
  }
  plan.run_id = topology.run_id;
  plan.step = topology.step == topology.run_id ? "" : topology.step;
  plan.once = topology.max_nodes == 1 && meeting.host == Meeting::Host::find_out && !hosted;
  bool const agreed_port = plan.ports.size() == 1;  // a derived port may be another job's: open no run there
  bool const used_once = !config.options.rdzv_id && topology.source == JobTopology::Source::slurm;
  plan.asks = !agreed_port ? Asks::meet : used_once ? Asks::open : Asks::reopen;
  plan.node.node_index = topology.node_index;
  plan.node.incarnation = config.nonce;
  plan.node.host = config.facts.host;
  plan.node.slots = config.facts.workers;
  plan.node.role = config.options.role;
  plan.node.coordinates = hosted.has_value();
  plan.node.announce = topology.master_addr;
  plan.node.standby_port = config.facts.standby_port;
  plan.terms = terms_of(config);
  plan.job_end = job_end(config.end);
  plan.patience = plan.once ? kDiscoveryPatience : config.options.terms.join_timeout;
  plan.local_addr = config.options.local_addr;
  return plan;
}

rendezvous::CallPlan discovered_plan(AgentConfig const& config) {
  auto plan = call_plan(config, std::nullopt);
  auto const& discovery = *config.topology.discovered;
  plan.addresses = discovery.addresses;
  plan.ports = {discovery.port};
  plan.coordinator = discovery.nonce;
  plan.patience = kDiscoveryPatience;
  plan.asks = config.options.rdzv_id ? Asks::reopen : Asks::open;
  if (config.topology.source == JobTopology::Source::join) {
    plan.run_id = discovery.run_id;
    plan.asks = Asks::enter;
    plan.terms.reset();
  }
  return plan;
}

std::optional<Error> discovered_failure(AgentConfig const& config, Error const& error) {
  bool const gone = error.code == Errc::timeout || error.code == Errc::in_use || error.code == Errc::not_found;
  if (gone && config.topology.source != JobTopology::Source::join) {
    return std::nullopt;
  }
  return gone ? fail(Errc::closed, error.message() + ", says " + config.topology.discovered->path +
                                       ": the job is over or its host gone")
              : error;
}

rendezvous::CallPlan rejoin_plan(AgentConfig const& config, agent::Rejoin const& how) {
  auto plan =
      config.topology.source == JobTopology::Source::join ? discovered_plan(config) : call_plan(config, std::nullopt);
  plan.run_id = config.facts.run_id;
  if (!how.to.address.empty()) {
    plan.addresses = {how.to.address};
    plan.ports = {how.to.port};
    plan.coordinator.clear();
  }
  plan.once = how.once;
  plan.asks = plan.terms ? Asks::meet : Asks::enter;  // never a new run
  return plan;
}

Millis end_timeout(Millis shutdown_timeout, Millis kill_wait) {
  auto const margin = std::max(kLeastMargin, kill_wait / 10);
  return std::min(shutdown_timeout, std::max(kill_wait - margin, kill_wait / 2));
}

agent::Policy agent_policy(Options const& options, JobTopology const& topology, std::optional<SlurmConf> const& slurm) {
  agent::Policy policy;
  policy.shutdown_timeout = options.shutdown_timeout;
  policy.restart_timeout = options.restart_timeout;
  policy.kill_timeout = options.kill_timeout;
  policy.health_check = !options.health_check.empty();
  policy.check_timeout = options.health_check_timeout;
  policy.end_timeout = slurm ? end_timeout(options.shutdown_timeout, slurm->kill_wait) : options.shutdown_timeout;
  policy.slurm_signals_all = slurm && slurm->signals_all();
  policy.tie = tie_of(options);
  policy.pair = topology.min_nodes <= 2 && topology.max_nodes == 2 && topology.expected_nodes.value_or(2) == 2 &&
                topology.source != JobTopology::Source::join && policy.tie == rendezvous::Tie::rank;
  policy.added = topology.source == JobTopology::Source::join;
  return policy;
}

void adopt_heartbeats(agent::Policy& policy, JobTopology const& topology, Millis heartbeat_timeout) {
  policy.lease = rendezvous::lease_terms(is_alone(topology) ? Millis{0} : heartbeat_timeout);
}

Millis hold_of_ports(agent::Policy const& policy, JobTopology const& topology) {
  bool const leases = policy.lease.lease > Millis{0} && policy.tie != Tie::none;
  Millis const without_leases = recall_time(policy) + policy.restart_timeout + kReapSlack;
  return is_alone(topology) ? Millis{0} : leases ? policy.lease.timeout : without_leases;
}

std::string why_no_shrink(Options const& options, JobTopology const& topology) {
  std::string const begin = "policy \"shrink\" has no effect ";
  if (!options.health_check.empty()) {
    return begin + "with --health-check, which needs the node to itself: all ranks wait for the restarted one";
  }
  if (topology.source == JobTopology::Source::join || topology.min_nodes < topology.max_nodes) {
    return "";
  }
  if (topology.max_nodes == 1) {
    return begin +
           "in a job of one node: all ranks wait for the restarted one; a job shrinks by nodes, with --nnodes MIN:MAX";
  }
  auto const most = std::to_string(topology.max_nodes);
  return begin + "with --nnodes " + most +
         ": all ranks wait for the restarted one; to continue without its node use --nnodes MIN:" + most;
}

int exit_code(std::optional<Error> const& failed, std::optional<agent::Exit> const& exit, std::optional<int> instead) {
  if (instead) {
    return *instead;
  }
  return failed ? code_of(*failed) : exit ? exit->code : kExitSystem;
}

}  // namespace cxxrun::launcher
