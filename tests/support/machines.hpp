// Machines that this one is not: synthetic topologies for the tests of binding.
#pragma once

#include <cstdint>

#include "launcher/place/cpu_plan.hpp"

namespace cxxrun::testing {

struct Shape {
  std::uint32_t packages = 1;
  std::uint32_t numa_per_package = 1;
  std::uint32_t caches_per_numa = 1;
  std::uint32_t cores_per_cache = 1;
  std::uint32_t threads = 1;
  [[nodiscard]] std::uint32_t cores() const { return packages * numa_per_package * caches_per_numa * cores_per_cache; }
};

/// Numbered as Linux numbers x86 machines: first one thread of every core, then the second threads.
inline launcher::Machine make_machine(Shape const& shape) {
  launcher::Machine machine;
  for (std::uint32_t thread = 0; thread < shape.threads; ++thread) {
    for (std::uint32_t core = 0; core < shape.cores(); ++core) {
      launcher::Pu pu;
      pu.id = thread * shape.cores() + core;
      pu.core = core;
      pu.l3 = core / shape.cores_per_cache;
      pu.numa = pu.l3 / shape.caches_per_numa;
      pu.package = pu.numa / shape.numa_per_package;
      machine.pus.push_back(pu);
    }
  }
  return machine;
}

/// Two sockets of two NUMA nodes of two caches of four cores, hyperthreaded: 32 cores, CPU n and n + 32 one core.
inline constexpr Shape kServer{2, 2, 2, 4, 2};

inline launcher::CpuSet all_cpus(launcher::Machine const& machine) {
  launcher::CpuSet cpus;
  for (auto const& pu : machine.pus) {
    cpus.push_back(pu.id);
  }
  return cpus;  // make_machine numbers them in ascending order
}

}  // namespace cxxrun::testing
