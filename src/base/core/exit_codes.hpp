// The exit codes that are not a worker's own (docs/use/exit_codes.md).
#pragma once

namespace cxxrun {

inline constexpr int kExitUsage = 100;   ///< options or environment; do not retry
inline constexpr int kExitSystem = 111;  ///< temporary system failure
inline constexpr int kExitTooFewNodes = 112;
inline constexpr int kExitCoordinatorLost = 113;
inline constexpr int kExitUnkillable = 114;
inline constexpr int kExitNoProgress = 115;  ///< --requeue gave up: do not run it again as it is
inline constexpr int kExitPartitioned = 116;
inline constexpr int kExitNotExecutable = 126;  ///< as shells have it
inline constexpr int kExitNotFound = 127;

}  // namespace cxxrun
