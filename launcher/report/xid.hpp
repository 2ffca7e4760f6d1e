// Xid: what the NVIDIA driver writes to the kernel's log when a GPU fails, or a program on it. Pure.
#pragma once

#include <string_view>

#include "launcher/report/death.hpp"

namespace cxxrun::launcher {

/// The first failure of a GPU in records of /dev/kmsg, in one line: "GPU 0000:3b:00 failed: Xid 79 (…)"; else the first
/// that the program on it has caused: "GPU 0000:3b:00: Xid 31 (…), which a program causes, not the GPU". Total.
[[nodiscard]] Explanation explain_xids(std::string_view kernel_log);

}  // namespace cxxrun::launcher
