#include "launcher/programs/dry_run.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "launcher/logs/log_names.hpp"
#include "launcher/warm/warm_command.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

namespace {

using Words = std::vector<std::string>;

char const* source_text(JobTopology::Source source) {
  static constexpr std::array kTexts{"standalone", "flags", "Slurm step", "joined"};
  return kTexts.at(static_cast<std::size_t>(source));
}

std::string nodes_text(JobTopology const& topology) {
  if (topology.task) {
    return std::to_string(topology.task->nodes) + " with " + std::to_string(topology.max_nodes) +
           " tasks of srun, each with its own cxxrun and one worker";
  }
  std::string text = std::to_string(topology.min_nodes);
  if (topology.max_nodes != topology.min_nodes) {
    text += " to " + std::to_string(topology.max_nodes);
  }
  if (topology.expected_nodes) {
    text += " (the step has " + std::to_string(*topology.expected_nodes) + ")";
  }
  return text;
}

std::string ports_text(std::vector<std::uint16_t> const& ports) {
  if (ports == std::vector<std::uint16_t>{0}) {
    return "any free port";
  }
  std::string text = "port " + std::to_string(ports.front());
  if (ports.back() == 0) {
    return text + " or any free port";
  }
  return ports.size() == 1 ? text : text + " or one of " + std::to_string(ports.size() - 1) + " more";
}

std::string host_text(JobTopology const& topology) {
  switch (topology.meeting.host) {
    case Meeting::Host::me: return "this node";
    case Meeting::Host::other: return topology.meeting.address;
    case Meeting::Host::find_out: return "the node that has the address " + topology.meeting.address;
  }
  return "";
}

/// "" if Slurm did not start cxxrun.
std::string slurm_text(Options const& options, JobTopology const& topology, Environment const& inherited) {
  if (!inherited.contains("SLURM_PROCID")) {
    return "";
  }
  std::string const copies = "; the originals are CXXRUN_SLURM_*";
  switch (options.slurm_env) {
    case SlurmEnv::keep: return "as srun set them for this task";
    case SlurmEnv::clear: return "none for workers" + copies;
    default: break;
  }
  if (topology.task) {
    return "as srun set them for this task, which is the worker's";
  }
  return (options.slurm_env == SlurmEnv::all ? "each worker's own, as if srun had started it"
                                             : "each worker's own, except those that srun and sbatch read as options") +
         copies;
}

/// When a node counts as lost, and what the other nodes do then.
std::string loss_text(Options const& options, JobTopology const& topology) {
  std::string const when = options.terms.heartbeat_timeout == Millis{0}
                               ? "when its connection ends"
                               : "after " + seconds_text(options.terms.heartbeat_timeout) + " of silence";
  if (topology.min_nodes == topology.max_nodes && topology.expected_nodes.value_or(0) <= topology.max_nodes) {
    return when + "; the size is fixed: the job ends";
  }
  std::string const least = "; at least " + std::to_string(topology.min_nodes) + " go on: ";
  if (options.quorum == Quorum::none) {
    return when + least + "every side of a cut by itself (--quorum none)";
  }
  return when + least + "the majority, of two halves " +
         (options.fence_dir.empty() ? "that of group rank 0"
                                    : "the first to claim a file in " + printable(options.fence_dir));
}

std::string topology_text(Options const& options, JobTopology const& topology, NodeFacts const& facts) {
  std::string text = "job          " + topology.run_id + " (" + source_text(topology.source) + ")\n";
  text += "nodes        " + nodes_text(topology) + "\n";
  text += "this node    " + facts.host;
  text += topology.task         ? ", task " + std::to_string(topology.task->process) + "\n"
          : topology.node_index ? ", index " + std::to_string(*topology.node_index) + "\n"
                                : "\n";
  if (topology.discovered) {
    text += "rendezvous   " + topology.discovered->addresses.front() + ", port " +
            std::to_string(topology.discovered->port) + ", found in " + topology.discovered->path + "\n";
    text += topology.source == JobTopology::Source::join ? "" : "otherwise\n";
  }
  text += "rendezvous   " + topology.meeting.address + ", " + ports_text(topology.meeting.ports) +
          (topology.meeting.loopback_only ? ", from this host only\n" : "\n");
  text += "hosted by    " + host_text(topology) + "\n";
  text += "workers      " + std::to_string(facts.workers) + " on this node, " + std::to_string(facts.cpus) + " CPUs\n";
  if (topology.max_nodes > 1) {
    text += "node lost    " + loss_text(options, topology) + "\n";
  }
  if (!options.health_check.empty()) {
    text +=
        "health check " + printable(options.health_check) + " (" + seconds_text(options.health_check_timeout) + ")\n";
  }
  return text + "logs         " + (facts.log_root.empty() ? "no files" : facts.log_root) + "\n";
}

/// A first generation of the expected nodes, at least the minimum, all like this one.
rendezvous::Generation likely_generation(Options const& options, JobTopology const& topology, NodeFacts const& facts) {
  rendezvous::Generation generation;
  generation.number = 1;
  generation.max_restarts = options.terms.max_restarts;
  generation.group_rank = topology.node_index.value_or(0);
  generation.group_size = std::max(topology.min_nodes, topology.expected_nodes.value_or(0));
  generation.group_size = std::min(generation.group_size, topology.max_nodes);
  generation.local_size = facts.workers;
  generation.rank_base = generation.role_base = generation.group_rank * facts.workers;
  generation.world_size = generation.role_size = generation.group_size * facts.workers;
  generation.master_addr = topology.master_addr.empty() ? topology.meeting.address : topology.master_addr;
  generation.master_port = topology.master_port;
  if (!topology.task && topology.node_names.size() >= generation.group_size) {
    auto const first = topology.node_names.begin();
    generation.hosts = compress_hostlist({first, first + generation.group_size});
  }
  generation.local_sizes = compress_counts(std::vector<unsigned>(generation.group_size, facts.workers));
  return generation;
}

/// The "NAME=VALUE" of the worker that cxxrun does not have itself. Unknown ports are "(chosen at start)".
Words differences(WorkerSpec const& worker, Environment const& inherited) {
  Words changed;
  for (auto const& word : worker.environment) {
    std::string const name = word.substr(0, word.find('='));
    if (name.starts_with("CXXRUN_SLURM")) {
      continue;  // copies of inherited variables
    }
    auto const found = inherited.find(name);
    if (found == inherited.end() || word != name + "=" + found->second) {
      bool const open = word == "MASTER_PORT=0" || word == "CXXRUN_STORE_PORT=0";
      changed.push_back(open ? name + "=(chosen at start)" : printable(word));
    }
  }
  return changed;
}

std::string command_text(std::vector<std::string> const& argv) {
  return join(list_of(argv, [](std::string const& word) { return printable(shell_quote(word), 4096); }), " ");
}

std::string warm_text(Options const& options, std::vector<WorkerSpec> const& workers) {
  if (options.warm.empty() || workers.empty()) {
    return "";
  }
  auto const command = warm_command(workers.front().argv);
  return "warm         " +
         (command ? (options.warm == kWarmAuto ? "what the first workers import" : options.warm) +
                        ", imported once by " + command_text(command->python)
                  : "no, " + command.error().context) +
         "\n";
}

std::string stream_text(StreamPlan const& stream) {
  if (stream.file.empty()) {
    return stream.console ? "console" : "discarded";
  }
  return stream.file + (stream.console ? " and console" : "");
}

/// A real start may choose another name if this one is taken.
std::string likely_log_root(Options const& options, NodeFacts const& facts) {
  if (options.log_dir == "/dev/null") {
    return "";
  }
  return options.log_dir.empty()
             ? "(temporary directory)"
             : options.log_dir + "/" + path_component(facts.run_id) + "_" + path_component(log_place(facts));
}

}  // namespace

std::vector<WorkerSpec> likely_workers(Options const& options, JobTopology const& topology, NodeFacts const& found,
                                       Environment const& inherited) {
  NodeFacts facts = found;
  facts.log_root = likely_log_root(options, found);
  return plan_workers(likely_generation(options, topology, facts), options, facts, inherited);
}

std::string dry_run_text(Options const& options, JobTopology const& topology, NodeFacts const& found,
                         Environment const& inherited, std::string const& program) {
  NodeFacts facts = found;
  facts.log_root = likely_log_root(options, found);
  auto const workers = likely_workers(options, topology, found, inherited);
  auto const changed = list_of(workers, [&](WorkerSpec const& worker) { return differences(worker, inherited); });
  std::set<std::string> shared;
  if (!changed.empty()) {
    std::copy_if(changed.front().begin(), changed.front().end(), std::inserter(shared, shared.end()),
                 [&changed](std::string const& word) {
                   return changed.size() > 1 && std::ranges::binary_search(changed[1], word);
                 });
  }
  std::string text = topology_text(options, topology, facts);
  text += program.empty() ? "" : "executes     " + printable(program, 4096) + "\n";
  text += warm_text(options, workers);
  if (auto const slurm = slurm_text(options, topology, inherited); !slurm.empty()) {
    text += "SLURM_*      " + slurm + "\n";
  }
  for (auto const* const notes : {&options.notes, &topology.notes, &topology.remarks}) {
    for (auto const& note : *notes) {
      text += "note         " + note + "\n";
    }
  }
  if (!shared.empty()) {
    text += "\nset for every worker:\n";
  }
  for (auto const& word : shared) {
    text += "  " + word + "\n";
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    WorkerSpec const& worker = workers[i];
    text += "\nrank " + std::to_string(worker.rank) + ": " + command_text(worker.argv) + "\n";
    text += "  stdout: " + stream_text(worker.out) + ", stderr: " + stream_text(worker.err) + "\n";
    text += worker.cpus.empty() ? "" : "  CPUs: " + number_list(worker.cpus) + "\n";
    for (auto const& word : changed[i]) {
      text += shared.count(word) > 0 ? "" : "  " + word + "\n";
    }
  }
  return text;
}

}  // namespace cxxrun::launcher
