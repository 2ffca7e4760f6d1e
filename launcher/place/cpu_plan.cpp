#include "launcher/place/cpu_plan.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "launcher/place/slurm_env.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using Node = std::optional<std::uint32_t>;

template <class Of>
std::vector<Core> only(Cores cores, Of of) {
  std::vector<Core> chosen;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(chosen), of);
  return chosen;
}

CpuPlan unbound(std::string why) {
  return CpuPlan{{}, std::move(why) + ": workers are not bound to CPUs"};
}

// ---- the modes of --numa-binding: near the GPU ----------------------------------------------------------------

struct Placement {
  std::vector<std::uint32_t> node;  ///< NUMA node by local rank
  std::string note;
};

/// The NUMA node of each worker: its GPU's, else one after the other. An error names the node without allowed CPU.
Result<Placement> place_workers(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes) {
  std::vector<std::uint32_t> usable;
  for (auto const& group : groups_of(cores, &Core::numa)) {
    usable.push_back(group.front().numa);
  }
  Placement placement;
  CpuSet unknown;  // local ranks
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    Node const node = rank < nodes.size() ? nodes[rank] : std::nullopt;
    if (node && std::find(usable.begin(), usable.end(), *node) == usable.end()) {
      return fail(Errc::environment, "the GPU of local rank " + std::to_string(rank) + " is at NUMA node " +
                                         std::to_string(*node) + ", of which cxxrun may use no CPU");
    }
    if (!node) {
      unknown.push_back(rank);
    }
    placement.node.push_back(node ? *node : usable[rank % usable.size()]);
  }
  if (!unknown.empty()) {
    placement.note = "the NUMA node of the GPU of local rank " + number_list(unknown) +
                     " is not known: bound to the NUMA nodes in turn";
  }
  return placement;
}

/// The workers of each NUMA node, by local rank.
std::map<std::uint32_t, std::vector<std::uint32_t>> by_node(std::vector<std::uint32_t> const& node) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> workers;
  for (std::uint32_t rank = 0; rank < node.size(); ++rank) {
    workers[node[rank]].push_back(rank);
  }
  return workers;
}

CpuSet whole(Cores cores, std::uint32_t node, bool socket) {
  std::set<std::uint32_t> packages;
  for (auto const& core : cores) {
    if (core.numa == node) {
      packages.insert(core.package);
    }
  }
  return cpus_of(
      only(cores, [&](Core const& core) { return socket ? packages.contains(core.package) : core.numa == node; }));
}

CpuPlan exclusive(Cores cores, std::vector<std::uint32_t> const& node) {
  CpuPlan plan;
  plan.sets.resize(node.size());
  for (auto const& [numa, ranks] : by_node(node)) {
    auto const own = only(cores, [wanted = numa](Core const& core) { return core.numa == wanted; });
    if (own.size() < ranks.size()) {
      return unbound(counted(ranks.size(), "worker") + " at NUMA node " + std::to_string(numa) + ", which has " +
                     counted(own.size(), "core"));
    }
    auto const sizes = even_parts(own.size(), ranks.size());
    std::size_t first = 0;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      plan.sets[ranks[i]] = cpus_of(Cores(own).subspan(first, sizes[i]));
      first += sizes[i];
    }
  }
  return plan;
}

/// The largest complexes first, among equals those with the lowest CPU; more workers than complexes share them.
CpuPlan core_complexes(Cores cores, std::vector<std::uint32_t> const& node) {
  CpuPlan plan;
  plan.sets.resize(node.size());
  for (auto const& [numa, ranks] : by_node(node)) {
    auto const own = only(cores, [wanted = numa](Core const& core) { return core.numa == wanted; });
    std::vector<CpuSet> complexes;
    for (auto const& group : groups_of(own, &Core::l3)) {
      complexes.push_back(cpus_of(group));
    }
    std::stable_sort(complexes.begin(), complexes.end(), [](CpuSet const& a, CpuSet const& b) {
      return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
    });
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      plan.sets[ranks[i]] = complexes[i % complexes.size()];
    }
  }
  return plan;
}

CpuPlan near_gpus(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes, CpuMode mode) {
  auto placed = place_workers(cores, workers, nodes);
  if (!placed) {
    return unbound(placed.error().context);
  }
  CpuPlan plan;
  if (mode == CpuMode::exclusive) {
    plan = exclusive(cores, placed->node);
  } else if (mode == CpuMode::core_complex) {
    plan = core_complexes(cores, placed->node);
  } else {
    for (auto const node : placed->node) {
      plan.sets.push_back(whole(cores, node, mode == CpuMode::socket));
    }
  }
  if (!plan.sets.empty()) {
    plan.note = std::move(placed->note);
  }
  return plan;
}

}  // namespace

std::vector<Node> gpu_nodes(std::vector<Gpu> const& gpus, std::optional<std::string_view> visible) {
  std::vector<Node> nodes;
  if (!visible) {
    for (auto const& gpu : gpus) {
      nodes.push_back(gpu.numa);
    }
    return nodes;
  }
  for (auto const& word : split(*visible, ',')) {
    std::string_view entry = trim(word);
    if (auto const index = parse_unsigned(entry, 0, 65535)) {
      if (*index >= gpus.size()) {
        break;  // as the CUDA driver counts: up to the first entry that names no device
      }
      nodes.push_back(gpus[*index].numa);
      continue;
    }
    bool const slice = entry.starts_with("MIG-");
    if (slice) {
      entry.remove_prefix(4);
    }
    auto const uuid = entry.substr(0, entry.find('/'));
    auto const gpu = std::find_if(gpus.begin(), gpus.end(), [&](Gpu const& each) {
      return uuid.starts_with("GPU-") && std::string_view(each.uuid).starts_with(uuid);
    });
    if (gpu == gpus.end() && !slice) {
      break;
    }
    nodes.push_back(gpu == gpus.end() ? std::nullopt : gpu->numa);
  }
  return nodes;
}

CpuChoice choose_cpu_mode(Options const& options, Environment const& environment, std::uint32_t workers) {
  auto const slurm = read_slurm(environment);
  bool const in_step = slurm && slurm->step;
  CpuChoice choice;
  choice.asked = options.numa_binding != CpuMode::none || options.cpu_bind == CpuMode::share;
  if (options.numa_binding != CpuMode::none) {
    choice.mode = options.numa_binding;
  } else if (options.cpu_bind) {
    choice.mode = *options.cpu_bind;
  } else {
    choice.mode = in_step ? CpuMode::share : CpuMode::none;
  }
  if (in_step && slurm->step->tasks_on_node > 1 && choice.mode != CpuMode::none) {
    choice.mode = CpuMode::none;
    choice.note =
        choice.asked ? "with several tasks on a node Slurm binds each of them (srun --cpu-bind); cxxrun does not" : "";
  } else if (choice.mode == CpuMode::share && workers < 2) {
    choice.mode = CpuMode::none;  // one worker has everything anyway
  }
  return choice;
}

CpuPlan plan_cpus(Machine const& machine, CpuSet const& allowed, std::uint32_t workers,
                  std::vector<Node> const& gpu_nodes, CpuMode mode) {
  if (mode == CpuMode::none || workers == 0) {
    return {};
  }
  if (allowed.size() < workers) {
    return unbound(counted(workers, "worker") + " on " + counted(allowed.size(), "CPU"));
  }
  auto const cores = allowed_cores(machine, allowed);
  if (cores.empty()) {
    return unbound("the machine's topology is not known");
  }
  if (mode != CpuMode::share) {
    return near_gpus(cores, workers, gpu_nodes, mode);
  }
  return cores.size() < workers ? unbound(counted(workers, "worker") + " on " + counted(cores.size(), "core"))
                                : CpuPlan{share_cores(cores, workers, gpu_nodes), ""};
}

}  // namespace cxxrun::launcher
