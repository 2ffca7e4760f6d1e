// Starting one worker: its streams, its program, its process. Shell.
//
// Blocks about 0.2 ms. Must run on the process's main thread: PDEATHSIG follows the forking thread.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/logs/log_pump.hpp"
#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::launcher {

/// A running worker, or why there is none.
struct WorkerStart {
  pid_t pid = 0;                    ///< 0: it could not be started
  int error = 0;                    ///< errno when it could not
  std::string why;                  ///< a line for people when it could not
  std::vector<PumpStream> streams;  ///< for LogPump::add, which owns their descriptors from then on
};

/// Removes the error file of an earlier run, opens the streams, finds the program and starts it. The worker's ends are
/// closed here: the worker has its own copies, and the pump is to see the end of file. `capacity_bytes`: of each pipe.
[[nodiscard]] WorkerStart start_worker(WorkerSpec const& spec, int capacity_bytes);

}  // namespace cxxrun::launcher
