// EnvironmentWatch: looks some seconds after the start whether the programs of the workers have what cxxrun has set for
// them, and says so once when they have not (launcher/workers/dropped_environment.hpp). Shell.
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

/// Looks at the node of rank 0 alone: the others run the same command, and one line is enough for a job. At most five
/// looks a generation, of some 40 µs for each worker that has not been seen to have them.
class EnvironmentWatch {
 public:
  /// `pid_of`: the process of a local rank; 0 when it has none, or need not be looked at because it has called.
  EnvironmentWatch(boost::asio::io_context& io, std::function<pid_t(std::uint32_t local_rank)> pid_of)
      : pid_of_(std::move(pid_of)), timer_(io) {}

  /// They have been started.
  void begin(std::vector<WorkerSpec> const& workers);
  /// They are being stopped.
  void end() { timer_.cancel(); }

 private:
  void wait();
  void look();

  std::function<pid_t(std::uint32_t)> pid_of_;
  os::Timer timer_;
  std::map<std::uint32_t, std::vector<std::string>> commands_;  // by local rank, of those not seen to have them
  std::set<pid_t> seen_;                                        // programs that had none when it looked before
  std::size_t looks_ = 0;
  bool said_ = false;
};

}  // namespace cxxrun::launcher
