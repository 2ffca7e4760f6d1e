// WorkerProcess: a worker's process, adopted from our own spawn by Boost.Process. Shell header, for supervisor.cpp.
//
// Boost.Process terminates, and waits for, whatever it still holds when it is destroyed. Nothing in the agent may block
// on a process, so this class lets go of it first.
#pragma once

#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/process/v2/process.hpp>

#include "src/core/exit_status.hpp"

namespace cxxrun::launcher {

/// A worker, from its start until its exit is taken. Not thread-safe.
class WorkerProcess {
 public:
  WorkerProcess() = default;
  WorkerProcess(boost::asio::io_context& io, pid_t pid) : process_(std::in_place, io.get_executor(), pid) {}
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  WorkerProcess(WorkerProcess const&) = delete;
  WorkerProcess& operator=(WorkerProcess const&) = delete;
  ~WorkerProcess() {
    if (process_) {
      process_->detach();
    }
  }

  /// Takes the exit of a process that has ended. Its native code is the status word: exit_code() would make 9 of
  /// both "exit 9" and "killed by signal 9".
  std::optional<ExitStatus> reap() {
    boost::system::error_code error;
    if (process_->running(error) || error) {
      return std::nullopt;
    }
    return ExitStatus::from_wait(process_->native_exit_code());
  }

 private:
  std::optional<boost::process::v2::process> process_;
};

}  // namespace cxxrun::launcher
