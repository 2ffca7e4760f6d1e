// The GPUs a process sees, as far as the environment tells. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

/// How many devices the first of CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ZE_AFFINITY_MASK
/// that is set names; none when none is set. Counting ends at the first entry that is no device, as in CUDA.
[[nodiscard]] std::optional<std::uint32_t> named_devices(Environment const& environment);

/// The device of one worker alone, as its CUDA_VISIBLE_DEVICES is to be: that entry of ours, or the number where we
/// have none. Nothing where ours is too short.
[[nodiscard]] std::optional<std::string> device_of(Environment const& environment, std::uint32_t local_rank);

/// The GPUs that Slurm gave this task: what it made visible or, where it makes all visible, how many it allotted on
/// this node. None when Slurm gave none or this is no process of slurmd's.
[[nodiscard]] std::optional<std::uint32_t> slurm_devices(Environment const& environment);

/// Whether a task sees devices of its own, so that it counts them from 0: Slurm says that it bound them to tasks, or
/// fewer are visible than there are tasks on the node.
[[nodiscard]] bool has_own_devices(Environment const& environment, std::uint32_t tasks_on_node);

}  // namespace cxxrun::launcher
