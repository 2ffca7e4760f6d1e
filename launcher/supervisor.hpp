// Supervisor: the shell that starts, watches, signals and reaps the workers of one agent.
//
// It performs what the pure core in worker_group.hpp decides. All members must be called from the thread that
// runs the io_context, which must be the process's main thread: PDEATHSIG follows the forking thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "launcher/worker_plan.hpp"
#include "rendezvous/worker_exit.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class LogPump;

/// How to stop: the signal, then SIGKILL after `grace`; a process not reaped `kill_timeout` after that is unkillable.
struct StopOrder {
  int signal = 15;  ///< SIGTERM, or the user's own signal
  bool send_signal = true;  ///< false: somebody (Slurm) has signalled the workers already
  std::chrono::milliseconds grace{5000};
  std::chrono::milliseconds kill_timeout{60'000};
  bool operator==(StopOrder const&) const = default;
};

/// Called on the io_context's thread, never from inside a call into the Supervisor.
struct SupervisorHandlers {
  /// One worker ended. `exit.stderr_tail` and `error_file` are filled only in `ended`.
  std::function<void(std::uint64_t generation, rendezvous::WorkerExit exit)> exited;
  /// Every worker and every descendant of the generation is reaped and its output is written.
  /// `unkillable`: lines naming processes that survived SIGKILL (empty in all normal ends).
  std::function<void(std::uint64_t generation, std::vector<rendezvous::WorkerExit> exits,
                     std::vector<std::string> unkillable)> ended;
};

class Supervisor {
 public:
  Supervisor(boost::asio::io_context& io, LogPump& pump, SupervisorHandlers handlers);
  ~Supervisor();  ///< SIGKILLs and reaps whatever is left
  Supervisor(Supervisor const&) = delete;
  Supervisor& operator=(Supervisor const&) = delete;

  /// Starts the workers of a generation, all of them or none running for long: a worker that cannot be started
  /// is reported by `exited` with ExitStatus::not_started and the others are stopped by the caller's order.
  void start(std::uint64_t generation, std::vector<WorkerSpec> const& workers);
  /// Begins to stop the running generation; harmless when nothing runs or a stop is under way (a shorter
  /// grace shortens it; grace 0 = kill now).
  void stop(StopOrder const& order);
  /// Passes a signal on to the workers that catch it (/proc/PID/status SigCgt).
  void forward(int signal);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun::launcher
