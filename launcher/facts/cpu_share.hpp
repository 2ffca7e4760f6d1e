// The slices of --cpu-bind share: all cores of a node, divided among its workers. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/facts/cpu_cores.hpp"

namespace cxxrun::launcher {

/// One set per worker, by local rank: disjoint, contiguous, all of `cores`, equal up to one core. As far as that
/// allows, no slice lies in two packages, NUMA nodes or caches. `gpu_nodes[i]` is the NUMA node of the GPU of local
/// rank i: when all are known, slices go where the GPUs are. There are at least as many cores as workers.
[[nodiscard]] std::vector<CpuSet> share_cores(Cores cores, std::uint32_t workers,
                                              std::vector<std::optional<std::uint32_t>> const& gpu_nodes);

}  // namespace cxxrun::launcher
