// The worker's ends of stdout and stderr: pipe to the log pump, file, or nothing.
#pragma once

#include <string>

#include "cxxrun/error.hpp"
#include "launcher/logs/log_pump.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::launcher {

/// One opened stream. `pump_end` is empty when the worker writes to its file or to /dev/null by itself; otherwise
/// hand it to LogPump::add together with `pump`.
struct OpenStream {
  os::UniqueFd worker_end;  ///< empty = /dev/null
  os::UniqueFd pump_end;
  PumpStream pump;  ///< fd unset
};

/// Which of a worker's streams need a pipe: console output, and stderr always, for its last lines. Pure.
[[nodiscard]] bool needs_pipe(StreamPlan const& plan, bool is_stderr);
/// Pipe capacity to ask for: large for few streams, for speed; the kernel limits the sum per user. Pure.
[[nodiscard]] int pipe_bytes(std::size_t streams);

/// Opens one stream. A file that cannot be opened is reported by a log line and the stream discarded; Errc::io only
/// when the system is out of descriptors.
[[nodiscard]] Result<OpenStream> open_stream(StreamPlan const& plan, bool is_stderr, std::string const& prefix,
                                             int capacity_bytes);
/// At most `limit` bytes of a regular file; "" when it is not there.
[[nodiscard]] std::string read_small_file(std::string const& path, std::size_t limit);

}  // namespace cxxrun::launcher
