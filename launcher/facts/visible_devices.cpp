#include "launcher/facts/visible_devices.hpp"

#include <algorithm>
#include <array>

#include "src/core/text.hpp"

namespace cxxrun::launcher {

namespace {

constexpr std::uint64_t kMaxDevices = 4096;

bool names_device(std::string_view entry) {
  return (!entry.empty() && entry.front() >= '0' && entry.front() <= '9') || entry.starts_with("GPU-") ||
         entry.starts_with("MIG-");
}

/// `binding`: for example "gpu:per_task:1" or "gpu:verbose,map_gpu:3,1".
bool bound_to_tasks(std::string_view binding) {
  constexpr std::array kOfTasks = {"per_task", "single", "map_gpu", "mask_gpu"};
  return std::any_of(kOfTasks.begin(), kOfTasks.end(),
                     [binding](char const* kind) { return binding.find(kind) != std::string_view::npos; });
}

}  // namespace

std::optional<std::uint32_t> named_devices(Environment const& environment) {
  for (char const* const name :
       {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}) {
    auto const list = find_value(environment, name);
    if (!list) {
      continue;
    }
    std::uint32_t count = 0;
    for (auto const& entry : split(*list, ',')) {
      if (!names_device(trim(entry))) {
        break;
      }
      ++count;
    }
    return count;
  }
  return std::nullopt;
}

std::optional<std::string> device_of(Environment const& environment, std::uint32_t local_rank) {
  auto const list = find_value(environment, "CUDA_VISIBLE_DEVICES");
  if (!list) {
    return std::to_string(local_rank);
  }
  auto const entries = split(*list, ',');
  return local_rank < entries.size() ? std::optional(std::string(trim(entries[local_rank]))) : std::nullopt;
}

std::optional<std::uint32_t> slurm_devices(Environment const& environment) {
  auto const allotted = find_value(environment, "SLURM_GPUS_ON_NODE");
  if (!allotted || !find_value(environment, "SLURMD_NODENAME")) {
    return std::nullopt;
  }
  if (auto const named = named_devices(environment)) {
    return named;
  }
  auto const count = parse_unsigned(*allotted, 0, kMaxDevices);
  return count ? std::optional<std::uint32_t>(static_cast<std::uint32_t>(*count)) : std::nullopt;
}

bool has_own_devices(Environment const& environment, std::uint32_t tasks_on_node) {
  auto const named = named_devices(environment);
  if (!named || *named == 0) {
    return false;  // all are visible, or none: nothing to count from 0
  }
  // What slurmd did comes before what the job script was asked for.
  for (char const* const name : {"SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND"}) {
    if (auto const binding = find_value(environment, name)) {
      return bound_to_tasks(*binding) || *named < tasks_on_node;
    }
  }
  return *named < tasks_on_node;
}

}  // namespace cxxrun::launcher
