#include "launcher/facts/cpu_cores.hpp"

#include <algorithm>
#include <map>
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

std::string cpu_list(CpuSet const& cpus) {
  std::string text;
  for (std::size_t begin = 0; begin < cpus.size();) {
    std::size_t end = begin;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) {
      ++end;
    }
    text += (text.empty() ? "" : ",") + std::to_string(cpus[begin]);
    text += end == begin ? "" : "-" + std::to_string(cpus[end]);
    begin = end + 1;
  }
  return text;
}

}  // namespace cxxrun::launcher
