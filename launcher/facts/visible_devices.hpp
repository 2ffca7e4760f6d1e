// The GPUs a process sees, as far as the environment tells. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

/// How many devices the lists name that are in effect; none when none is set. Counting ends at the first entry that is
/// no device, as in CUDA. HIP_VISIBLE_DEVICES counts among those of ROCR_VISIBLE_DEVICES where both are set; else the
/// first of CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and ZE_AFFINITY_MASK that is set counts.
/// Where MIG devices are among CUDA's, they alone do.
[[nodiscard]] std::optional<std::uint32_t> named_devices(Environment const& environment);

/// A line when HIP sees fewer devices than its own list names, else "". `amd`: the GPUs of this machine are AMD's, for
/// which CUDA_VISIBLE_DEVICES is such a list, too.
[[nodiscard]] std::string hidden_devices(Environment const& environment, bool amd);

/// How many devices of MIG CUDA_VISIBLE_DEVICES names; none when it names none. CUDA shows a process one of them.
[[nodiscard]] std::optional<std::uint32_t> mig_devices(Environment const& environment);

/// A line when so many workers of a node would all get the first MIG device, because no list names those of the GPUs
/// with these numbers, which are partitioned; else "".
[[nodiscard]] std::string unnamed_partitions(Environment const& environment,
                                             std::vector<std::uint32_t> const& partitioned, std::uint32_t workers);

/// A variable that gives a process one device.
struct DeviceChoice {
  std::string variable;
  std::string value;
  bool operator==(DeviceChoice const&) const = default;
};

/// The device of one worker alone: that entry of the list in effect, or the number in CUDA_VISIBLE_DEVICES where CUDA
/// has none. Nothing where the list is too short.
[[nodiscard]] std::optional<DeviceChoice> device_of(Environment const& environment, std::uint32_t local_rank);

/// The list in effect as it was set, for messages: "CUDA_VISIBLE_DEVICES=0,1"; "" without one.
[[nodiscard]] std::string visible_list(Environment const& environment);

/// The GPUs that Slurm gave this task: what it made visible or, where it makes all visible, how many it allotted on
/// this node. None when Slurm gave none or this is no process of slurmd's.
[[nodiscard]] std::optional<std::uint32_t> slurm_devices(Environment const& environment);

/// What several tasks of a node see.
struct TaskDevices {
  bool own = false;  ///< each counts its devices from 0; else the tasks spread over them by their local rank
  std::string line;  ///< what to tell the user; "" = nothing
  bool operator==(TaskDevices const&) const = default;
};

/// Own are those that Slurm says it bound to tasks, and a part of the step's so small that each task can have another.
/// One visible device is number 0, whoever else sees it. That fewer are visible than there are tasks proves nothing.
[[nodiscard]] TaskDevices devices_of_tasks(Environment const& environment, std::uint32_t tasks_on_node);

/// The line for so many workers of one agent: they share devices, or see one of MIG each; "" when each has its own.
[[nodiscard]] std::string devices_of_workers(Environment const& environment, std::uint32_t workers);

}  // namespace cxxrun::launcher
