// EnvironmentWatch: checks some seconds after the start whether the workers' programs have the variables that cxxrun
// has set, and warns once if they have not (launcher/workers/dropped_environment.hpp). Shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/plan/worker_plan.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

/// Checks only on the node of rank 0: the other nodes run the same command, and one warning is enough for a job. There
/// are at most five checks in a generation, each of about 40 µs per worker that is still checked.
class EnvironmentWatch {
 public:
  /// `pid_of`: the process of a local rank; 0 when it has none, or need not be checked because it has registered.
  EnvironmentWatch(boost::asio::io_context& io, std::function<pid_t(std::uint32_t local_rank)> pid_of)
      : pid_of_(std::move(pid_of)), timer_(io) {}

  /// The workers have been started.
  void begin(std::vector<WorkerSpec> const& workers);
  /// The workers are being stopped.
  void end() { timer_.cancel(); }

 private:
  void arm();
  void check();

  std::function<pid_t(std::uint32_t)> pid_of_;
  os::Timer timer_;
  std::map<std::uint32_t, std::vector<std::string>> commands_;  // by local rank: workers that are still checked
  std::set<pid_t> suspects_;                                    // programs without the variables at the last check
  std::size_t checks_ = 0;
  bool warned_ = false;
};

}  // namespace cxxrun::launcher
