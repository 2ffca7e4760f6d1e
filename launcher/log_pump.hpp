// LogPump: carries the workers' output to files and to the console, on a thread of its own.
//
// A flood of output, or a console that nobody reads, never delays supervision. Lines reach the console whole and
// prefixed; the last lines of each stderr are kept for the failure report.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"

namespace cxxrun::launcher {

/// One stream of one worker to carry. The pump owns the descriptor from `add` on.
struct PumpStream {
  int fd = -1;            ///< read end of the worker's pipe (non-blocking, CLOEXEC)
  std::string file;       ///< append here; "" = no file
  bool console = true;
  bool to_stderr = false; ///< console stream: false = stdout, true = stderr
  std::string prefix;     ///< before each line on the console
  bool keep_tail = false; ///< keep the last 20 lines (8 KiB) for `drain`
};

class LogPump {
 public:
  /// Starts the thread. Signals are blocked in it.
  LogPump();
  /// Carries on until every stream has ended or `finish`'s deadline has passed; then ends the thread.
  ~LogPump();
  LogPump(LogPump const&) = delete;
  LogPump& operator=(LogPump const&) = delete;

  /// Adds a stream; returns its id. Thread-safe. Errors of the file (no permission, disk full) are reported once
  /// by `on_error` and the stream goes on without its file: the worker is never blocked by our disk.
  std::uint64_t add(PumpStream stream);
  /// Asks for everything that is in the pipe now to be written, then calls `done` (on the pump's thread) with the
  /// tail. With `close` the stream ends afterwards even if a grandchild still holds the other end: call it only
  /// when all descendants are dead or abandoned. Never blocks the caller.
  void drain(std::uint64_t id, bool close, std::function<void(std::string tail)> done);
  /// Writes what is pending, at most until `deadline_ms` from now, and ends the thread. False: output was dropped
  /// because the console did not take it in time.
  bool finish(int deadline_ms);
  /// Set before the first `add`: one line per trouble with a file, called on the pump's thread.
  void on_error(std::function<void(std::string)> handler);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun::launcher
