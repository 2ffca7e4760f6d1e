// CpuPlan: which CPUs each worker of a node may run on. Machine + allowed CPUs + GPUs + mode → CPU sets. Pure.
//
// The modes and their reasons are in docs/use/binding.md. A set is never empty, never holds a CPU outside `allowed`,
// and never half a core of which the whole is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/facts/cpu_cores.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"

namespace cxxrun::launcher {

/// A GPU of the machine that this process may open, in the order of CUDA's indices (PCI bus).
struct Gpu {
  std::string uuid;                   ///< "GPU-8932f937-…"
  std::optional<std::uint32_t> numa;  ///< nothing: the kernel does not know
};

/// NUMA nodes of the GPUs that a process with this CUDA_VISIBLE_DEVICES (nothing = unset) sees, by its own indices.
/// UUIDs may be shortened, MIG slices by UUID are unknown.
[[nodiscard]] std::vector<std::optional<std::uint32_t>> gpu_nodes(std::vector<Gpu> const& gpus,
                                                                  std::optional<std::string_view> visible);

/// What the options, or the variables of a Slurm step, ask for on this node. Nothing is bound where Slurm has bound
/// each task already, that is with several tasks on the node; `note` says so when binding was asked for.
struct CpuChoice {
  CpuMode mode = CpuMode::none;
  bool asked = false;  ///< by an option, not by default: then what cannot be done is worth a line
  std::string note;
};
[[nodiscard]] CpuChoice choose_cpu_mode(Options const& options, Environment const& environment, std::uint32_t workers);

struct CpuPlan {
  std::vector<CpuSet> sets;  ///< by local rank; empty: no worker is bound
  std::string note;          ///< why nothing is bound, or what was assumed; "" = nothing to say
};

/// `gpu_nodes[i]` is the NUMA node of the GPU of local rank i, as far as there is one and it is known.
[[nodiscard]] CpuPlan plan_cpus(Machine const& machine, CpuSet const& allowed, std::uint32_t workers,
                                std::vector<std::optional<std::uint32_t>> const& gpu_nodes, CpuMode mode);

}  // namespace cxxrun::launcher
