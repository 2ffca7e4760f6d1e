// WorkerProcess: a worker's process, from its start until its exit is taken. Shell.
#pragma once

#include <optional>
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/process/v2/process.hpp>

#include "src/base/core/exit_status.hpp"
#include "src/base/os/children.hpp"

namespace cxxrun::launcher {

/// Not thread-safe.
///
/// Boost.Process terminates, and waits for, whatever it still holds when it is destroyed. Nothing in the agent may
/// block on a process, so this class lets go of it first.
class WorkerProcess {
 public:
  WorkerProcess(boost::asio::io_context& io, pid_t pid) : pid_(pid) {
    try {
      process_.emplace(io.get_executor(), pid);
    } catch (boost::system::system_error const&) {
      // no pidfd: a kernel before Linux 5.3, or no descriptor left; the worker runs, and its exit is taken by pid
    }
  }
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  WorkerProcess(WorkerProcess const&) = delete;
  WorkerProcess& operator=(WorkerProcess const&) = delete;
  ~WorkerProcess() {
    if (process_) {
      process_->detach();
    }
  }

  /// Takes the exit of a process that has ended; never blocks. Its native code is the status word: exit_code() would
  /// make 9 of both "exit 9" and "killed by signal 9".
  std::optional<ExitStatus> reap() {
    if (!process_) {
      return os::reap(pid_);
    }
    boost::system::error_code error;
    if (process_->running(error) || error) {
      return std::nullopt;
    }
    return ExitStatus::from_wait(process_->native_exit_code());
  }

 private:
  pid_t pid_;
  std::optional<boost::process::v2::process> process_;
};

}  // namespace cxxrun::launcher
