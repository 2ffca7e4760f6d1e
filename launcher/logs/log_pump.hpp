// LogPump: carries the workers' output to files and to the console, on threads of its own.
//
// A flood of output, or a console that nobody reads, never delays supervision. Lines reach the console whole and
// prefixed; the last words of each stderr are kept for the failure report. docs/use/logs.md has the guarantees.
//
// A full console pauses the streams that go to it (their workers wait in write, as with a terminal), files of
// those streams included; streams without console, drains and everything else go on. A console that is gone (EPIPE,
// hang-up) swallows its part and the files go on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/logs/rotation.hpp"
#include "launcher/logs/show_times.hpp"
#include "launcher/report/evidence.hpp"
#include "src/base/os/bounded_thread.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher {

/// One stream of one worker to carry.
struct PumpStream {
  os::UniqueFd fd;   ///< read end of the worker's pipe (made non-blocking; CLOEXEC is the caller's)
  std::string file;  ///< append here, byte for byte; "" = no file. Its directory must exist
  bool console = true;
  bool to_stderr = false;                 ///< console stream: false = stdout, true = stderr
  std::string prefix;                     ///< before each line on the console
  bool keep_words = false;                ///< keep its last words for `drain`; else only what a debugger asked last
  std::vector<std::string> filters = {};  ///< lines with one of these in them ...
  std::string filtered = {};              ///< ... are also appended here, prefixed; other streams may do the same
  Rotation rotation = {};                 ///< of `file`
  bool fold = false;                      ///< its lines are held on the console for those of others that equal them
  std::uint32_t rank = 0;                 ///< by which it is named then
  Millis patience = kUnfinishedFor;       ///< how long a line may be unfinished before it is shown on the console
};

class LogPump {
 public:
  /// Starts the threads, every signal blocked in them; throws without descriptors or threads left.
  /// The console is the process's stdout and stderr.
  LogPump();
  /// The same with another console. The descriptors are duplicated, and their flags are left alone.
  LogPump(int console_out, int console_err);
  /// As `finish(1000)`, unless that was called.
  ~LogPump();
  LogPump(LogPump const&) = delete;
  LogPump& operator=(LogPump const&) = delete;

  /// Adds a stream; returns its id. Thread-safe, never blocks. Errors of the file (no permission, disk full) are
  /// reported once by `on_error` and the stream goes on without its file.
  std::uint64_t add(PumpStream stream);
  /// Asks for everything that is in the pipe now to be written to the file and handed to the console (which may
  /// take its time: drains do not wait for it), then calls `done` (on the pump's thread) with its last words. Not only
  /// while the stream lives: after its end of file they stay available until a drain with `close`.
  /// With `close` the stream ends afterwards even if a grandchild still holds the other end: call it only
  /// when all descendants are dead or abandoned. Thread-safe, never blocks the caller; `done` may call the pump.
  /// An unknown id gives none. `done` is late only when a log's file system hangs.
  void drain(std::uint64_t id, bool close, std::function<void(LastWords words)> done);
  /// Writes a line of the launcher's own to the console's stderr, after all output drained before, held or not.
  /// Thread-safe, never blocks. A newline is added.
  void say(std::string line);
  /// Drains and closes every stream, writes what is pending, at most until `deadline_ms` from now, and ends the
  /// threads. False: output was dropped because a console or disk did not take it in time, or (said on the
  /// console itself) because more than 64 MiB of it waited. Not thread-safe; `add`, `drain` and `say` do nothing
  /// afterwards, and callbacks no longer come.
  bool finish(int deadline_ms);
  /// Set before the first `add`: one line per trouble with a file, called on the pump's thread.
  void on_error(std::function<void(std::string)> handler);

 private:
  class Pump;
  std::shared_ptr<Pump> pump_;  // shared with the thread, which may have to be left behind
  std::unique_ptr<os::BoundedThread> thread_;
  std::atomic<std::uint64_t> last_id_ = 0;
  bool complete_ = true;  // after finish: nothing was dropped
};

}  // namespace cxxrun::launcher
