// Judges a node by its facts: what keeps a job from running there (failure), what causes trouble later (warning). Pure
// and total.
#pragma once

#include <string_view>

#include "launcher/doctor/finding.hpp"

namespace cxxrun::launcher::doctor {

/// All findings, in the order of the table.
[[nodiscard]] Findings judge(Facts const& facts);

/// Whether the release, as uname -r prints it ("4.17.0-1"), is older than Linux 4.18, the oldest supported one. False
/// if it is not a version.
[[nodiscard]] bool kernel_too_old(std::string_view release);

// Parts of judge().

/// One finding for each name that getent resolves differently, and one if lookups are slow.
[[nodiscard]] Findings judge_lookups(Facts const& facts);
[[nodiscard]] Finding judge_processes(Facts const& facts);
[[nodiscard]] Finding judge_gpus(Facts const& facts);
[[nodiscard]] Finding judge_nccl(Facts const& facts);
[[nodiscard]] Finding judge_interfaces(Facts const& facts);
[[nodiscard]] Finding judge_python(Facts const& facts);
[[nodiscard]] Finding judge_directory(Facts const& facts);
[[nodiscard]] Finding judge_logs(Facts const& facts);
[[nodiscard]] Finding judge_home(Facts const& facts);

}  // namespace cxxrun::launcher::doctor
