// Machine, Core, CpuSet: the CPUs of a node as values, in the order in which they are neighbours, and the slices of
// --cpu-bind share. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cxxrun::launcher {

/// CPU numbers of the operating system, ascending.
using CpuSet = std::vector<std::uint32_t>;

/// One CPU (a hardware thread) and what it belongs to. `numa` is the operating system's number, as sysfs names it for
/// a PCI device; the others only have to tell one package, cache or core of the machine from another.
struct Pu {
  std::uint32_t id = 0;
  std::uint32_t package = 0;
  std::uint32_t numa = 0;
  std::uint32_t l3 = 0;
  std::uint32_t core = 0;
};

struct Machine {
  std::vector<Pu> pus;  ///< in any order
};

/// The allowed CPUs of one core, with where the core is.
struct Core {
  std::uint32_t package = 0;
  std::uint32_t numa = 0;
  std::uint32_t l3 = 0;
  CpuSet cpus;
};
using Cores = std::span<Core const>;

/// A member that says where a core is: package, numa or l3.
using CoreField = std::uint32_t Core::*;

/// The cores of which at least one CPU is allowed. Neighbours are beside each other: package, NUMA node, cache, core.
/// A NUMA node that spans packages stays in one piece.
[[nodiscard]] std::vector<Core> allowed_cores(Machine const& machine, CpuSet const& allowed);
/// The pieces of `cores` with the same package, NUMA node or cache.
[[nodiscard]] std::vector<Cores> groups_of(Cores cores, CoreField level);
[[nodiscard]] CpuSet cpus_of(Cores cores);
/// How many of `cores` each of `parts` (at least 1) gets: as equal as possible, the first ones one more.
[[nodiscard]] std::vector<std::size_t> even_parts(std::size_t cores, std::size_t parts);
/// One set per worker, by local rank: disjoint, contiguous, all of `cores`, equal up to one core. As far as that
/// allows, no slice lies in two packages, NUMA nodes or caches. `gpu_nodes[i]` is the NUMA node of the GPU of local
/// rank i: when all are known, slices go where the GPUs are. There are at least as many cores as workers.
[[nodiscard]] std::vector<CpuSet> share_cores(Cores cores, std::uint32_t workers,
                                              std::vector<std::optional<std::uint32_t>> const& gpu_nodes);

}  // namespace cxxrun::launcher
