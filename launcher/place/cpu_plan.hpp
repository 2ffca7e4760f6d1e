// CpuPlan: which CPUs each worker of a node may run on. Machine + allowed CPUs + GPUs + mode → CPU sets. Pure.
//
// docs/use/binding.md explains the modes. A set is never empty, holds only CPUs of `allowed`, and has all allowed CPUs
// of each of its cores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"

namespace cxxrun::launcher {

// ---- the machine

/// CPU numbers of the operating system, ascending.
using CpuSet = std::vector<std::uint32_t>;

/// One CPU (a hardware thread) and what it belongs to. `numa` is the number of the operating system, as in sysfs for a
/// PCI device. The other numbers only need to be distinct within the machine.
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

// ---- the plan

/// A GPU of the machine that this process may open, in the order of CUDA's indices (PCI bus).
struct Gpu {
  std::string uuid;                   ///< "GPU-8932f937-…"
  std::optional<std::uint32_t> numa;  ///< empty: unknown to the kernel
};

/// The NUMA nodes of the GPUs that a process with this CUDA_VISIBLE_DEVICES (empty = unset) sees, in its own order.
/// UUIDs may be abbreviated; the node of a MIG device named by its own UUID is unknown.
[[nodiscard]] std::vector<std::optional<std::uint32_t>> gpu_nodes(std::vector<Gpu> const& gpus,
                                                                  std::optional<std::string_view> visible);

/// The binding that the options, or the default under Slurm, ask for on this node. With several tasks on the node
/// nothing is bound, because Slurm binds each task; `note` says so if an option asked for binding.
struct CpuChoice {
  CpuMode mode = CpuMode::none;
  bool asked = false;  ///< by an option, not by default: report if it cannot be done
  std::string note;
};
[[nodiscard]] CpuChoice choose_cpu_mode(Options const& options, Environment const& environment, std::uint32_t workers);

struct CpuPlan {
  std::vector<CpuSet> sets;  ///< by local rank; empty: no worker is bound
  std::string note;          ///< why nothing is bound, or what was assumed; may be ""
};

/// `gpu_nodes[i]` is the NUMA node of the GPU of local rank i, if known.
[[nodiscard]] CpuPlan plan_cpus(Machine const& machine, CpuSet const& allowed, std::uint32_t workers,
                                std::vector<std::optional<std::uint32_t>> const& gpu_nodes, CpuMode mode);

}  // namespace cxxrun::launcher
