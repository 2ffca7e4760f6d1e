// KernelRelease: which kernels the programs are made for. Pure.
#pragma once

#include <string_view>

namespace cxxrun::launcher {

/// Whether a kernel that calls itself so ("4.17.0-1", as uname -r prints it) is older than Linux 4.18. False for what
/// is no version.
[[nodiscard]] bool kernel_too_old(std::string_view release);

}  // namespace cxxrun::launcher
