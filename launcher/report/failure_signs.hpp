// Failure signs: what a worker's stderr and the kernel's log say about why it failed. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/core/limits.hpp"

namespace cxxrun::launcher {

/// One line each; "" when nothing is known.
struct Explanation {
  std::string cause;
  std::string advice;
  bool of_job = false;  ///< caused by the job itself: it would have failed on any other node, too
  bool operator==(Explanation const&) const = default;
};

/// The certain signs in a worker's stderr.
struct StderrSigns {
  std::string helper;          ///< pid of a DataLoader worker that died
  bool helper_killed = false;  ///< by SIGKILL; else by SIGBUS
  bool disk_full = false;      ///< no space left, or the quota is used up
  bool over_quota = false;     ///< the quota is used up
  std::string disk_path;       ///< the path in that line
  bool io_error = false;       ///< "Input/output error", "Stale file handle", …
};
[[nodiscard]] StderrSigns signs_in(std::string_view text);

/// Explains the limit that stderr says was reached; empty if it speaks of none. `limits`: those of the worker, with its
/// user's usage now. Total.
[[nodiscard]] Explanation explain_limits(std::string_view said, Limits const& limits);

/// Explains what the NVIDIA driver has written to records of /dev/kmsg: the first failure of a GPU, "GPU 0000:3b:00
/// failed: Xid 79 (…)", else the first error that a program has caused, "GPU 0000:3b:00: Xid 31 (…), caused by a
/// program, not by the GPU". Total.
[[nodiscard]] Explanation explain_xids(std::string_view kernel_log);

/// "512 KiB", "98 MiB", "7.5 GiB"
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

}  // namespace cxxrun::launcher
