#include "launcher/place/cpu_plan.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "launcher/place/slurm_env.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using Node = std::optional<std::uint32_t>;

/// The allowed CPUs of one core, and where the core is.
struct Core {
  std::uint32_t package = 0;
  std::uint32_t numa = 0;
  std::uint32_t l3 = 0;
  CpuSet cpus;
};
using Cores = std::span<Core const>;

/// Core::package, Core::numa or Core::l3.
using CoreField = std::uint32_t Core::*;

// ---- cores, groups of them, and the slices of --cpu-bind share

/// The cores with at least one allowed CPU, ordered by package, NUMA node, cache and core, so that neighbours are
/// adjacent. A NUMA node that spans packages stays contiguous.
std::vector<Core> allowed_cores(Machine const& machine, CpuSet const& allowed) {
  std::map<std::uint32_t, std::uint32_t> first_package;  // of a NUMA node
  for (auto const& pu : machine.pus) {
    auto const known = first_package.try_emplace(pu.numa, pu.package).first;
    known->second = std::min(known->second, pu.package);
  }
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, Core> cores;
  for (auto const& pu : machine.pus) {
    if (std::ranges::binary_search(allowed, pu.id)) {
      auto& core = cores[Key{first_package.at(pu.numa), pu.numa, pu.package, pu.l3, pu.core}];
      core.package = pu.package;
      core.numa = pu.numa;
      core.l3 = pu.l3;
      core.cpus.push_back(pu.id);
    }
  }
  std::vector<Core> ordered;
  ordered.reserve(cores.size());
  for (auto& [key, core] : cores) {
    ordered.push_back(std::move(core));
  }
  return ordered;
}

/// Splits `cores` where the package, NUMA node or cache changes.
std::vector<Cores> groups_of(Cores cores, CoreField level) {
  std::vector<Cores> groups;
  for (std::size_t begin = 0; begin < cores.size();) {
    std::size_t end = begin + 1;
    while (end < cores.size() && cores[end].*level == cores[begin].*level) {
      ++end;
    }
    groups.push_back(cores.subspan(begin, end - begin));
    begin = end;
  }
  return groups;
}

CpuSet cpus_of(Cores cores) {
  CpuSet cpus;
  for (auto const& core : cores) {
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::ranges::sort(cpus);
  return cpus;
}

/// Divides `cores` by `parts` (at least 1): sizes differ by at most one, the larger ones come first.
std::vector<std::size_t> even_parts(std::size_t cores, std::size_t parts) {
  assert(parts > 0);
  std::vector<std::size_t> sizes(parts, cores / parts);
  std::fill_n(sizes.begin(), cores % parts, cores / parts + 1);
  return sizes;
}

/// A range of neighbouring cores and the workers that share it, each with the NUMA node of its GPU. Every share has
/// `base` cores or one more, the same for the whole machine.
struct Division {
  Cores cores;
  std::span<Node const> workers;
  std::size_t base = 1;
};

/// How many workers each group gets so that every share lies within one group; empty if shares of this size do not fit.
/// If there is a choice, workers go where their GPUs are.
std::optional<std::vector<std::size_t>> workers_per_group(Division const& all, std::vector<Cores> const& groups) {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> least;
  std::vector<std::size_t> most;
  for (auto const& group : groups) {
    least.push_back((group.size() + all.base) / (all.base + 1));
    most.push_back(group.size() / all.base);
    if (least.back() > most.back()) {
      return std::nullopt;
    }
    auto const near = std::ranges::count_if(all.workers, [&](Node const& node) {
      return std::ranges::any_of(group, [&](Core const& core) { return node == core.numa; });
    });
    counts.push_back(std::clamp(static_cast<std::size_t>(near), least.back(), most.back()));
  }
  auto sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  for (std::size_t i = 0; i < groups.size(); ++i) {
    while (sum < all.workers.size() && counts[i] < most[i]) {
      ++counts[i];
      ++sum;
    }
    while (sum > all.workers.size() && counts[i] > least[i]) {
      --counts[i];
      --sum;
    }
  }
  return sum == all.workers.size() ? std::optional(counts) : std::nullopt;
}

void divide(Division const& all, std::span<CoreField const> levels, std::vector<std::size_t>& sizes) {
  if (levels.empty()) {
    auto const parts = even_parts(all.cores.size(), all.workers.size());
    sizes.insert(sizes.end(), parts.begin(), parts.end());
    return;
  }
  auto const groups = groups_of(all.cores, levels.front());
  auto const counts = workers_per_group(all, groups);
  if (!counts) {
    divide(all, levels.subspan(1), sizes);
    return;
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    divide(Division{groups[i], all.workers.subspan(first, (*counts)[i]), all.base}, levels.subspan(1), sizes);
    first += (*counts)[i];
  }
}

/// Local ranks in the order in which they get their cores: by the NUMA node of their GPU, if all are known.
std::vector<std::uint32_t> slice_order(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes) {
  std::vector<std::uint32_t> order(workers);
  std::iota(order.begin(), order.end(), 0U);
  std::map<std::uint32_t, std::size_t> place;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    place.try_emplace(cores[i].numa, i);
  }
  auto const placed = [&](Node const& node) { return node && place.contains(*node); };
  if (nodes.size() >= workers && std::all_of(nodes.begin(), nodes.begin() + workers, placed)) {
    std::ranges::stable_sort(
        order, [&](std::uint32_t a, std::uint32_t b) { return place.at(*nodes[a]) < place.at(*nodes[b]); });
  }
  return order;
}

/// Divides all of `cores`, at least as many as workers, into one set per worker, by local rank: disjoint, contiguous,
/// equal up to one core. If possible, no set spans two packages, NUMA nodes or caches. `gpu_nodes[i]` is the NUMA node
/// of the GPU of local rank i: if all are known, workers get cores near their GPUs.
std::vector<CpuSet> share_cores(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes) {
  assert(workers > 0 && cores.size() >= workers);
  auto const order = slice_order(cores, workers, nodes);
  std::vector<Node> gpus(workers);
  for (std::size_t i = 0; i < workers; ++i) {
    gpus[i] = order[i] < nodes.size() ? nodes[order[i]] : std::nullopt;
  }
  constexpr CoreField kLevels[] = {&Core::package, &Core::numa, &Core::l3};  // NOLINT(modernize-avoid-c-arrays)
  std::vector<std::size_t> sizes;
  divide(Division{cores, gpus, cores.size() / workers}, kLevels, sizes);
  std::vector<CpuSet> sets(workers);
  std::size_t first = 0;
  for (std::size_t i = 0; i < workers; ++i) {
    sets[order[i]] = cpus_of(cores.subspan(first, sizes[i]));
    first += sizes[i];
  }
  return sets;
}

template <class Of>
std::vector<Core> only(Cores cores, Of of) {
  std::vector<Core> chosen;
  std::ranges::copy_if(cores, std::back_inserter(chosen), of);
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

/// The NUMA node of each worker: that of its GPU, else the nodes in turn. An error names a GPU's node without allowed
/// CPUs.
Result<Placement> place_workers(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes) {
  std::vector<std::uint32_t> usable;
  for (auto const& group : groups_of(cores, &Core::numa)) {
    usable.push_back(group.front().numa);
  }
  Placement placement;
  CpuSet unknown;  // local ranks
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    Node const node = rank < nodes.size() ? nodes[rank] : std::nullopt;
    if (node && std::ranges::find(usable, *node) == usable.end()) {
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

/// Assigns the largest complexes first, equal ones by their lowest CPU. If there are more workers than complexes, they
/// share.
CpuPlan core_complexes(Cores cores, std::vector<std::uint32_t> const& node) {
  CpuPlan plan;
  plan.sets.resize(node.size());
  for (auto const& [numa, ranks] : by_node(node)) {
    auto const own = only(cores, [wanted = numa](Core const& core) { return core.numa == wanted; });
    std::vector<CpuSet> complexes;
    for (auto const& group : groups_of(own, &Core::l3)) {
      complexes.push_back(cpus_of(group));
    }
    std::ranges::stable_sort(complexes, [](CpuSet const& a, CpuSet const& b) {
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
        break;  // CUDA ignores entries from the first invalid one on
      }
      nodes.push_back(gpus[*index].numa);
      continue;
    }
    bool const slice = entry.starts_with("MIG-");
    if (slice) {
      entry.remove_prefix(4);
    }
    auto const uuid = entry.substr(0, entry.find('/'));
    auto const gpu = std::ranges::find_if(gpus, [&](Gpu const& each) {
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
    choice.mode = CpuMode::none;  // a single worker may use all CPUs anyway
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
