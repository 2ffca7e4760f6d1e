// The GPUs that a process sees, as far as the environment tells. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

/// The number of devices in the list in effect; empty if no list is set. The list in effect is HIP_VISIBLE_DEVICES,
/// counted among ROCR_VISIBLE_DEVICES, if both are set; else the first of CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
/// ROCR_VISIBLE_DEVICES and ZE_AFFINITY_MASK that is set. A list ends at the first entry that is not a device, as in
/// CUDA. If CUDA's list has MIG devices, only they count.
[[nodiscard]] std::optional<std::uint32_t> named_devices(Environment const& environment);

/// A warning if HIP sees fewer devices than its list names, else "". `amd`: this machine has AMD GPUs, for which
/// CUDA_VISIBLE_DEVICES is such a list, too.
[[nodiscard]] std::string hidden_devices(Environment const& environment, bool amd);

/// The number of MIG devices in CUDA_VISIBLE_DEVICES; empty if there are none. CUDA shows a process only one of them.
[[nodiscard]] std::optional<std::uint32_t> mig_devices(Environment const& environment);

/// A warning if all workers of a node would get the same MIG device, because they see partitioned GPUs whose MIG
/// devices no list names; else "". `partitioned`: the numbers of these GPUs.
[[nodiscard]] std::string unnamed_partitions(Environment const& environment,
                                             std::vector<std::uint32_t> const& partitioned, std::uint32_t workers);

/// A variable that gives a process one device.
struct DeviceChoice {
  std::string variable;
  std::string value;
  bool operator==(DeviceChoice const&) const = default;
};

/// The variable that shows a worker its own device alone: its entry of the list in effect, or its number in
/// CUDA_VISIBLE_DEVICES if no list or only ROCR's is set. Empty if the list is too short.
[[nodiscard]] std::optional<DeviceChoice> device_of(Environment const& environment, std::uint32_t local_rank);

/// The NVIDIA GPU of a worker with this environment, as CUDA_VISIBLE_DEVICES names it: its LOCAL_RANK chooses, as by
/// custom, and starts at the first one again. "" = none, or not known.
[[nodiscard]] std::string gpu_of(Environment const& environment);

/// The list in effect as it was set, for messages: "CUDA_VISIBLE_DEVICES=0,1"; "" without one.
[[nodiscard]] std::string visible_list(Environment const& environment);

/// The number of GPUs that Slurm gave this task: those in the list in effect or, without one, those allotted on this
/// node. Empty if Slurm gave none or slurmd did not start this process.
[[nodiscard]] std::optional<std::uint32_t> slurm_devices(Environment const& environment);

/// How several tasks of a node see its GPUs.
struct TaskDevices {
  bool own = false;  ///< each task uses its devices from 0 on; else tasks choose by local rank among the same devices
  std::string line;  ///< for the log; "" = nothing
  bool operator==(TaskDevices const&) const = default;
};

/// Devices are own if Slurm says that it bound them to tasks, or if a task sees so few of the step's that every task
/// can have others. A single visible device always counts as own: it is number 0, even if other tasks see it, too.
/// Fewer visible devices than tasks alone prove nothing.
[[nodiscard]] TaskDevices devices_of_tasks(Environment const& environment, std::uint32_t tasks_on_node);

/// A log line if the workers of one agent share devices, or see one MIG device each; "" if each has its own.
[[nodiscard]] std::string devices_of_workers(Environment const& environment, std::uint32_t workers);

}  // namespace cxxrun::launcher
