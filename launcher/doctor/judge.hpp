// Facts → findings: what keeps a job from running on this node (failure), what bites later (warning). Pure and total.
#pragma once

#include "launcher/doctor/finding.hpp"

namespace cxxrun::launcher::doctor {

[[nodiscard]] Finding judge_names(Facts const& facts);
/// One finding for each name that another program of this machine finds elsewhere, and one for look-ups that are slow.
[[nodiscard]] Findings judge_lookups(Facts const& facts);
[[nodiscard]] Finding judge_ports(Facts const& facts);
[[nodiscard]] Finding judge_clock(Facts const& facts);
[[nodiscard]] Finding judge_kernel(Facts const& facts);
[[nodiscard]] Finding judge_cpus(Facts const& facts);
[[nodiscard]] Finding judge_memory(Facts const& facts);
[[nodiscard]] Finding judge_shm(Facts const& facts);
[[nodiscard]] Finding judge_descriptors(Facts const& facts);
[[nodiscard]] Finding judge_processes(Facts const& facts);
[[nodiscard]] Finding judge_locked_memory(Facts const& facts);
[[nodiscard]] Finding judge_gpus(Facts const& facts);
[[nodiscard]] Finding judge_nccl(Facts const& facts);
[[nodiscard]] Finding judge_interfaces(Facts const& facts);
[[nodiscard]] Finding judge_python(Facts const& facts);
[[nodiscard]] Finding judge_directory(Facts const& facts);
[[nodiscard]] Finding judge_logs(Facts const& facts);
[[nodiscard]] Finding judge_home(Facts const& facts);
/// One finding for each setting that bites; one that is fine when none does.
[[nodiscard]] Findings judge_slurm(Facts const& facts);

/// All of them, in the order of the table.
[[nodiscard]] Findings judge(Facts const& facts);

}  // namespace cxxrun::launcher::doctor
