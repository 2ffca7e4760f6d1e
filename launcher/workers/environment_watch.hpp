// EnvironmentWatch: checks some seconds after the start whether the workers' programs have the variables that cxxrun
// has set, and warns once if they have not (launcher/workers/dropped_environment.hpp). Shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/plan/worker_plan.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class WorkerLinks;
struct GroupState;

/// Checks only on the node of rank 0: the other nodes run the same command, and one warning is enough for a job. There
/// are at most five checks in a generation, each of about 40 µs per worker that is still checked.
class EnvironmentWatch {
 public:
  /// The references outlive it. Workers that have registered at `links` are not checked.
  EnvironmentWatch(boost::asio::io_context& io, GroupState const& state, WorkerLinks const& links)
      : state_(state), links_(links), timer_(io) {}

  /// The workers have been started.
  void begin(std::vector<WorkerSpec> const& workers);
  /// The workers are being stopped.
  void end() { timer_.cancel(); }

 private:
  void arm();
  void check();

  GroupState const& state_;
  WorkerLinks const& links_;
  os::Timer timer_;
  std::map<std::uint32_t, std::vector<std::string>> commands_;  // by local rank: workers that are still checked
  std::set<pid_t> suspects_;                                    // programs without the variables at the last check
  std::size_t checks_ = 0;
  bool warned_ = false;
};

}  // namespace cxxrun::launcher
