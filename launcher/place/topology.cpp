#include "launcher/place/topology.hpp"

#include <algorithm>
#include <cassert>

#include "launcher/facts/outer_launcher.hpp"
#include "launcher/facts/visible_devices.hpp"
#include "launcher/options/options.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/ports.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

namespace {

Error refused(std::string what) {
  return fail(Errc::usage, std::move(what));
}

std::string range_text(NodeRange const& range) {
  return range.min == range.max ? std::to_string(range.min)
                                : std::to_string(range.min) + ":" + std::to_string(range.max);
}

/// "0.0.0.0" and "::": all addresses of the host that reads them.
bool is_any_address(std::string const& host) {
  return host == "0.0.0.0" || host == "::";
}

/// Workers of other nodes are told --local-addr as MASTER_ADDR.
Result<void> check_local_addr(Options const& options, JobTopology const& topology) {
  auto const& given = options.local_addr;
  bool const here_only = is_loopback(given) || is_any_address(given);
  bool const alone = topology.max_nodes <= 1 || (topology.task && topology.task->nodes == 1);
  return !alone && !topology.meeting.loopback_only && here_only
             ? refused("--local-addr " + given +
                       " leads every node to itself, and other nodes cannot reach this one there; give its address in "
                       "the network of the nodes, or drop the flag")
             : Result<void>();
}

/// The derived rendezvous ports, without --master-port, which is for the store.
std::vector<std::uint16_t> derived_ports(std::string const& seed, std::uint16_t master_port) {
  auto ports = port_sequence(seed, kPortsTried);
  std::erase(ports, master_port);
  return ports;
}

Meeting::Host host_if(bool mine) {
  return mine ? Meeting::Host::me : Meeting::Host::other;
}

/// What all sources of a topology have in common.
JobTopology common(Options const& options, NodeRange const& range) {
  JobTopology topology;
  topology.min_nodes = range.min;
  topology.max_nodes = range.max;
  topology.master_addr = options.master_addr.value_or(options.local_addr);
  topology.master_port = options.master_port.value_or(0);
  topology.node_index = options.node_rank;
  return topology;
}

void take_notes(SlurmView const& slurm, JobTopology& topology) {
  topology.notes = slurm.notes;
  if (!slurm.remark.empty()) {
    topology.remarks.push_back(slurm.remark);
  }
}

JobTopology standalone(Options const& options, SlurmView const& slurm, std::string const& random_id) {
  JobTopology topology = common(options, {});
  topology.source = JobTopology::Source::standalone;
  topology.run_id = random_id;
  if (options.standalone) {  // as in torchrun, it overrides all flags about other nodes
    topology.master_addr = options.local_addr;
  } else if (options.rdzv_id || slurm.step) {
    topology.run_id = options.rdzv_id ? *options.rdzv_id : slurm.step->run_id;
  }
  topology.node_index = 0;
  topology.meeting = {Meeting::Host::me, "127.0.0.1", {0}, true};
  take_notes(slurm, topology);
  if (options.standalone && slurm.step && (slurm.step->nodes() > 1 || slurm.step->several_tasks)) {
    topology.notes.emplace_back("--standalone: each task of the Slurm step runs a job of its own; drop it for one job");
  }
  return topology;
}

/// Under Slurm an endpoint is not needed. If given, it must be on a node of the step.
Result<void> meet_at_endpoint(Endpoint const& endpoint, char const* flag, SlurmStep const& step,
                              JobTopology& topology) {
  Meeting& meeting = topology.meeting;
  if (endpoint.port == std::uint16_t{0}) {
    return refused(std::string(flag) + ": port 0 is for one node only; drop the flag, Slurm says where to meet");
  }
  if (endpoint.port) {
    meeting.ports = {*endpoint.port};
  }
  meeting.address = endpoint.host;
  meeting.loopback_only = is_loopback(endpoint.host);
  if (meeting.loopback_only) {
    return step.nodes() == 1
               ? Result<void>()
               : refused(std::string(flag) + " " + endpoint.host + " is this host only, but the Slurm step has " +
                         counted(step.nodes(), "node") + "; drop the flag");
  }
  if (is_ip_literal(endpoint.host)) {
    meeting.host = Meeting::Host::find_out;
    return {};
  }
  auto const named = std::ranges::find_if(step.node_names,
                                          [&](std::string const& name) { return same_host_name(name, endpoint.host); });
  if (named == step.node_names.end()) {
    return refused(std::string(flag) + " " + endpoint.host + " is on no node of the Slurm step (" +
                   step.node_names.front() + (step.nodes() > 1 ? " to " + step.node_names.back() : "") +
                   "); drop the flag, Slurm says where to meet");
  }
  auto const index = static_cast<std::uint32_t>(named - step.node_names.begin());
  meeting.host = host_if(index == step.node_index && step.task_index == 0);
  if (index != 0) {
    topology.notes.push_back(std::string(flag) + ": node " + std::to_string(index) + " (" + *named +
                             ") hosts the rendezvous");
  }
  return {};
}

Result<void> meet_where_told(Options const& options, SlurmStep const& step, JobTopology& topology) {
  if (options.rdzv_endpoint) {
    return meet_at_endpoint(*options.rdzv_endpoint, "--rdzv-endpoint", step, topology);
  }
  return options.master_addr ? meet_at_endpoint({*options.master_addr, {}}, "--master-addr", step, topology)
                             : Result<void>();
}

Result<NodeRange> slurm_range(Options const& options, std::uint32_t nodes) {
  NodeRange const range = options.nnodes.value_or(NodeRange{nodes, nodes});
  if (range.min > nodes) {
    return refused("--nnodes " + range_text(range) + " needs more than the " + counted(nodes, "node") +
                   " of the Slurm step; use srun -N" + std::to_string(range.min) + ", or drop --nnodes");
  }
  if (range.max == 1 && nodes > 1) {  // a job of one node has no spares
    return refused("--nnodes 1 leaves nothing to do for the other nodes of the Slurm step, which has " +
                   std::to_string(nodes) +
                   "; drop --nnodes for one job on all of them, or give --standalone for a job "
                   "on each");
  }
  return range;
}

/// With several tasks on a node every task is an agent, and the job needs all of them.
Result<NodeRange> task_range(Options const& options, SlurmStep const& step) {
  auto const nodes = step.nodes();
  std::string const tasks =
      "several tasks on a node of the Slurm step (" + counted(step.tasks, "task") + ", " + counted(nodes, "node") + ")";
  NodeRange const all{step.tasks, step.tasks};
  if (!options.nnodes || *options.nnodes == all || *options.nnodes == NodeRange{nodes, nodes}) {
    return all;
  }
  return refused("--nnodes " + range_text(*options.nnodes) + " with " + tasks +
                 (options.nnodes->min != options.nnodes->max
                      ? ": only whole nodes can come and go; use srun --ntasks-per-node=1"
                      : ": every task takes part; drop --nnodes"));
}

bool agrees_with(std::optional<std::uint32_t> node_rank, SlurmStep const& step) {
  return !node_rank || *node_rank == step.node_index || (step.several_tasks && *node_rank == step.process);
}

/// --node-rank must agree with Slurm, except with c10d: there torchrun ignores it, and batch scripts pass their own
/// $SLURM_PROCID to every node.
Result<void> check_node_rank(Options const& options, SlurmStep const& step) {
  return agrees_with(options.node_rank, step) || options.rdzv_backend == "c10d"
             ? Result<void>()
             : refused("--node-rank " + std::to_string(*options.node_rank) + " contradicts SLURM_NODEID=" +
                       std::to_string(step.node_index) + "; drop --node-rank, Slurm numbers the nodes");
}

/// Task 0 of node 0 hosts the rendezvous: it always exists, and its node is the first one of the step's list, so that
/// every task knows where it is. Process 0 may be on any node (srun -m arbitrary).
void place(Options const& options, SlurmStep const& step, Environment const& environment, JobTopology& topology) {
  bool const hosts = step.node_index == 0 && step.task_index == 0;
  topology.expected_nodes = step.several_tasks ? step.tasks : step.nodes();
  topology.node_index = step.several_tasks ? step.process : step.node_index;
  topology.host = step.node_names[step.node_index];
  topology.node_names = step.node_names;
  topology.meeting = {host_if(hosts), step.node_names.front(), derived_ports(step.run_id, topology.master_port), false};
  if (!step.several_tasks) {
    return;
  }
  auto devices = devices_of_tasks(environment, step.tasks_on_node);
  topology.task =
      TaskPlace{step.process, step.task_index, step.tasks_on_node, step.node_index, step.nodes(), devices.own};
  if (hosts && !devices.line.empty()) {
    topology.remarks.push_back(std::move(devices.line));
  }
  if (step.nodes() == 1 && options.local_addr.empty()) {
    topology.meeting.address = "127.0.0.1";
    topology.meeting.loopback_only = true;
  }
}

/// srun does not tell its tasks about the option --no-kill, but they inherit the variable SLURM_NO_KILL.
void remark_on_loss(Environment const& environment, JobTopology& topology) {
  if (topology.min_nodes < topology.max_nodes && topology.meeting.host == Meeting::Host::me &&
      value_of(environment, "SLURM_NO_KILL") != "set") {
    topology.remarks.emplace_back(
        "when a node is lost Slurm kills the whole step, unless both srun and sbatch have --no-kill; then an elastic "
        "job goes on (export SLURM_NO_KILL=set before srun says the same, and silences this line)");
  }
}

Result<JobTopology> in_slurm(Options const& options, SlurmView const& slurm, Environment const& environment) {
  SlurmStep const& step = *slurm.step;
  auto const range = step.several_tasks ? task_range(options, step) : slurm_range(options, step.nodes());
  if (!range) {
    return range.error();
  }
  if (auto const agreed = check_node_rank(options, step); !agreed) {
    return agreed.error();
  }
  if (step.several_tasks && !options.terms.agent_store &&
      value_of(environment, "SLURM_DISTRIBUTION").starts_with("arbitrary")) {
    return refused(
        "srun -m arbitrary without the agent's store: rank 0 may be on another node than MASTER_ADDR; drop "
        "--agent-store off (TORCH_DISABLE_SHARE_RDZV_TCP_STORE), or -m arbitrary");
  }
  JobTopology topology = common(options, *range);
  topology.source = JobTopology::Source::slurm;
  topology.run_id = options.rdzv_id.value_or(step.run_id);
  topology.notes = slurm.notes;
  topology.step = topology.max_nodes > 1 ? step.run_id : "";
  if (!agrees_with(options.node_rank, step)) {
    topology.notes.push_back("--node-rank " + std::to_string(*options.node_rank) + " is ignored: SLURM_NODEID is " +
                             std::to_string(step.node_index) + ", and Slurm numbers the nodes; drop --node-rank");
  }
  bool const ours = environment.contains("CXXRUN_RUN_ID");
  if (!ours && environment.contains("TORCHELASTIC_RUN_ID") && environment.contains("LOCAL_RANK")) {
    topology.notes.emplace_back(
        "this may run below a worker of torchrun (TORCHELASTIC_RUN_ID), where it waits for the other tasks of the "
        "step: give --standalone for a job of its own");
  }
  place(options, step, environment, topology);
  remark_on_loss(environment, topology);
  if (auto const met = meet_where_told(options, step, topology); !met) {
    return met.error();
  }
  bool const may_be_taken = options.rdzv_id && topology.meeting.ports.size() == 1;  // by cxxrun-rendezvous
  if (topology.meeting.host == Meeting::Host::me && may_be_taken) {
    topology.meeting.host = Meeting::Host::find_out;
  }
  if (topology.min_nodes < topology.max_nodes) {
    topology.announce_as = discovery_name(environment, value_of(environment, "SLURM_STEP_ID"));
  }
  return topology;
}

/// Whether the agents of a step are to meet outside it: at cxxrun-rendezvous, or with the agents of another step.
bool meets_outside(Options const& options, SlurmStep const& step) {
  auto const& endpoint = options.rdzv_endpoint;
  bool const somewhere = endpoint && endpoint->port.value_or(0) != 0 && !is_ip_literal(endpoint->host) &&
                         !is_loopback(endpoint->host) && options.rdzv_id && !step.several_tasks;
  return somewhere && std::ranges::none_of(step.node_names, [&](std::string const& name) {
           return same_host_name(name, endpoint->host);
         });
}

/// --join: the running job decides everything except what this node is.
Result<JobTopology> joining(Options const& options, SlurmView const& slurm, Discovery const& discovery) {
  if (slurm.step && slurm.step->several_tasks) {
    return refused("--join with several tasks on a node: use srun --ntasks-per-node=1");
  }
  JobTopology topology = common(options, {});
  topology.source = JobTopology::Source::join;
  topology.run_id = discovery.run_id.empty() ? discovery.job : discovery.run_id;
  topology.discovered = discovery;
  topology.host = slurm.step ? slurm.step->node_names[slurm.step->node_index] : "";
  topology.meeting = {Meeting::Host::other, discovery.addresses.front(), {discovery.port}, false};
  return topology;
}

/// --rdzv-endpoint outside Slurm.
Result<Meeting> meeting_at_endpoint(Options const& options, NodeRange const& range) {
  Endpoint const& endpoint = *options.rdzv_endpoint;
  Meeting meeting{
      Meeting::Host::find_out, endpoint.host, {endpoint.port.value_or(kDefaultPort)}, is_loopback(endpoint.host)};
  if (meeting.ports.front() == 0 && range.max > 1) {
    return refused("--rdzv-endpoint " + endpoint_text(endpoint.host, 0) + ": port 0 is for one node only; with " +
                   range_text(range) + " nodes all must be given the same port");
  }
  if (is_any_address(endpoint.host) && range.max > 1) {
    return refused("--rdzv-endpoint " + endpoint.host +
                   " leads every node to itself; give all nodes the name or address of one of them");
  }
  bool const may_be_taken = options.rdzv_id && meeting.ports.front() != 0;  // by cxxrun-rendezvous
  meeting.host = options.node_rank                 ? host_if(*options.node_rank == 0)
                 : range.max == 1 && !may_be_taken ? Meeting::Host::me
                                                   : Meeting::Host::find_out;
  if (range.max == 1 && meeting.host == Meeting::Host::me && meeting.ports.front() != 0) {
    meeting.ports.push_back(0);  // no other node has to find it
  }
  return meeting;
}

/// --master-addr, --master-port and --node-rank: torchrun's static rendezvous.
Result<Meeting> meeting_at_master(Options const& options, NodeRange const& range, std::string const& run_id) {
  if (range.max == 1) {
    return Meeting{Meeting::Host::me, "127.0.0.1", {0}, is_loopback(options.master_addr.value_or("127.0.0.1"))};
  }
  if (!options.master_addr) {
    return refused(
        "--nnodes " + range_text(range) +
        ": where do the nodes meet? Add --rdzv-endpoint HOST:29400, the same on all nodes, or start with srun");
  }
  if (!options.node_rank && !options.is_host) {
    return refused("--master-addr with --nnodes " + range_text(range) +
                   " needs --node-rank on every node; or use --rdzv-endpoint HOST:PORT, which does not");
  }
  std::uint16_t const port = options.master_port.value_or(0);
  return Meeting{host_if(options.node_rank == 0U), *options.master_addr,
                 derived_ports(run_id + ":" + std::to_string(port), port), is_loopback(*options.master_addr)};
}

Result<JobTopology> by_flags(Options const& options, SlurmView const& slurm, NodeRange const& range) {
  if (options.node_rank && *options.node_rank >= range.max) {
    return refused("--node-rank " + std::to_string(*options.node_rank) + " is not below --nnodes " + range_text(range) +
                   "; ranks start at 0");
  }
  JobTopology topology = common(options, range);
  topology.source = JobTopology::Source::flags;
  topology.run_id = options.rdzv_id.value_or(slurm.step && range.max == 1 ? slurm.step->run_id : "none");
  take_notes(slurm, topology);
  auto meeting =
      options.rdzv_endpoint ? meeting_at_endpoint(options, range) : meeting_at_master(options, range, topology.run_id);
  if (!meeting) {
    return meeting.error();
  }
  topology.meeting = std::move(*meeting);
  if (options.rdzv_endpoint && !options.nnodes && topology.meeting.host == Meeting::Host::me &&
      !topology.meeting.loopback_only) {
    topology.notes.emplace_back("a job of this node alone, as --nnodes is not given; with several nodes: --nnodes N");
  }
  return topology;
}

/// mpirun starts agents that do not know of each other.
void note_mpirun(Environment const& environment, JobTopology& topology) {
  auto const size = mpi_size(environment);
  if (topology.source == JobTopology::Source::standalone && size > 1 && !inside_worker(environment)) {
    topology.notes.push_back("mpirun has started " + std::to_string(size) +
                             " of these, and each is a job of its own: start cxxrun with srun, or once on each node "
                             "with --nnodes N --rdzv-endpoint HOST:29400; --standalone if that is meant");
  }
}

/// The file of the step; without Slurm, a name made of the ports, which --join does not look for.
std::string meeting_file_of(JobTopology const& topology, Environment const& environment) {
  auto const& ports = topology.meeting.ports;
  return topology.source == JobTopology::Source::slurm
             ? discovery_name(environment, value_of(environment, "SLURM_STEP_ID"))
             : "meeting." + std::to_string(ports[0]) + "." + std::to_string(ports[1]);
}

}  // namespace

Result<JobTopology> make_topology(Options const& options, Environment const& environment, std::string const& random_id,
                                  std::optional<Discovery> const& discovery, Whereabouts const& here) {
  auto const slurm = read_slurm(environment, here);
  if (options.join && discovery) {
    return joining(options, slurm ? *slurm : SlurmView{}, *discovery);
  }
  if (options.standalone && options.nnodes && options.nnodes->min > 1) {
    return refused("--standalone is for one node but --nnodes " + range_text(*options.nnodes) +
                   " asks for more; drop one of them");
  }
  if (options.standalone) {
    return standalone(options, slurm ? *slurm : SlurmView{}, random_id);
  }
  if (!slurm) {
    return slurm.error();
  }
  bool const has_place = options.rdzv_endpoint || options.master_addr;
  auto const& step = slurm->step;
  bool const outside = step && meets_outside(options, *step);
  NodeRange const range = options.nnodes.value_or(outside ? NodeRange{step->nodes(), step->nodes()} : NodeRange{});
  // A step of a single task that was given a meeting place may meet agents of other steps or jobs there.
  bool const shared_step = step && (step->nodes() > 1 || step->several_tasks);
  bool const by_step = (shared_step && !outside) || (step && !has_place && (range.max > 1 || discovery));
  bool const by_flags_alone = has_place || options.master_port || range.max > 1 || options.node_rank.value_or(0) > 0;
  auto topology = by_step          ? in_slurm(options, *slurm, environment)
                  : by_flags_alone ? by_flags(options, *slurm, range)
                                   : standalone(options, *slurm, random_id);
  if (topology) {
    note_mpirun(environment, *topology);
  }
  if (auto const reachable = topology ? check_local_addr(options, *topology) : Result<void>(); !reachable) {
    return reachable.error();
  }
  if (topology && options.is_host && topology->source != JobTopology::Source::standalone) {
    topology->meeting.host = host_if(*options.is_host);
  }
  // Steps meet at their job's own cxxrun-rendezvous, unless the flags give another port.
  auto const& endpoint = options.rdzv_endpoint;
  if (topology && step && discovery && (!endpoint || endpoint->port.value_or(discovery->port) == discovery->port)) {
    topology->discovered = discovery;
  }
  assert(!topology || !topology->meeting.ports.empty());
  if (topology && topology->max_nodes > 1 && topology->meeting.ports.size() > 1) {
    topology->meeting_file = meeting_file_of(*topology, environment);
  }
  if (topology && topology->master_port != 0 && topology->meeting.ports.front() == topology->master_port) {
    topology->master_port = 0;
    topology->notes.emplace_back("--master-port is the port of --rdzv-endpoint too; the store gets another one");
  }
  return topology;
}

// ---- the names of runs

namespace {

std::string of_cluster(Environment const& environment) {
  auto const cluster = value_of(environment, "SLURM_CLUSTER_NAME");
  return cluster.empty() ? "" : " of " + cluster;
}

}  // namespace

RunNamesOf run_names(JobTopology const& topology, Options const& options, Environment const& environment) {
  auto const& ports = topology.meeting.ports;
  bool const agreed_port = ports.size() == 1 && ports.front() != 0;
  RunNamesOf names;
  if (!topology.step.empty()) {
    names.opens.push_back("step " + topology.step + of_cluster(environment));
  }
  if (topology.source != JobTopology::Source::slurm || (options.rdzv_id && agreed_port)) {
    names.opens.push_back(name_of_run(topology.run_id));
  }
  names.looks_for = names.opens;
  if (auto const job = name_of_job(environment); !job.empty() && topology.source != JobTopology::Source::join) {
    names.looks_for.push_back(job);
  }
  if (options.rdzv_id && agreed_port) {
    names.looks_for.push_back(name_of_port(ports.front()));
  }
  return names;
}

std::string name_of_run(std::string const& id) {
  return "run " + id;
}

std::string name_of_job(Environment const& environment) {
  auto const name = discovery_name(environment);
  auto const restarts = restart_count(environment);
  return name.empty() ? "" : "job " + name + (restarts == 0 ? "" : "." + std::to_string(restarts));
}

std::string name_of_port(std::uint16_t port) {
  return "any run at port " + std::to_string(port);
}

}  // namespace cxxrun::launcher
