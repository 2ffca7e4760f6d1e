#include "launcher/facts/cpu_cores.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace cxxrun::launcher {

std::vector<Core> allowed_cores(Machine const& machine, CpuSet const& allowed) {
  std::map<std::uint32_t, std::uint32_t> first_package;  // of a NUMA node
  for (auto const& pu : machine.pus) {
    auto const known = first_package.try_emplace(pu.numa, pu.package).first;
    known->second = std::min(known->second, pu.package);
  }
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<Key, Core> cores;
  for (auto const& pu : machine.pus) {
    if (std::binary_search(allowed.begin(), allowed.end(), pu.id)) {
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
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

std::vector<std::size_t> even_parts(std::size_t cores, std::size_t parts) {
  std::vector<std::size_t> sizes(parts, cores / parts);
  std::fill_n(sizes.begin(), cores % parts, cores / parts + 1);
  return sizes;
}

namespace {

using Node = std::optional<std::uint32_t>;

/// What is divided at once: neighbouring cores, the workers that get them (the NUMA node of each one's GPU), and the
/// size of a share: `base` or one more, the same for the whole machine.
struct Division {
  Cores cores;
  std::span<Node const> workers;
  std::size_t base = 1;
};

/// Workers per group such that every share lies within one; nothing when that is impossible with shares of this size.
/// Where there is a choice, workers go where their GPUs are.
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
    auto const near = std::count_if(all.workers.begin(), all.workers.end(), [&](Node const& node) {
      return std::any_of(group.begin(), group.end(), [&](Core const& core) { return node == core.numa; });
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

/// Local ranks in the order in which they get their slices: by the place of their GPU, when all places are known.
std::vector<std::uint32_t> slice_order(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes) {
  std::vector<std::uint32_t> order(workers);
  std::iota(order.begin(), order.end(), 0U);
  std::map<std::uint32_t, std::size_t> place;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    place.try_emplace(cores[i].numa, i);
  }
  auto const placed = [&](Node const& node) { return node && place.contains(*node); };
  if (nodes.size() >= workers && std::all_of(nodes.begin(), nodes.begin() + workers, placed)) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return place.at(*nodes[a]) < place.at(*nodes[b]); });
  }
  return order;
}

}  // namespace

std::vector<CpuSet> share_cores(Cores cores, std::uint32_t workers, std::vector<Node> const& nodes) {
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

}  // namespace cxxrun::launcher
