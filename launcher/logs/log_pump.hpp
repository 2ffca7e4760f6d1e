// LogPump: carries the workers' output to files and to the console, on threads of its own.
//
// A flood of output, or a console that is not read, never delays supervision. Lines reach the console whole and
// prefixed; the last words of each stderr are kept for the failure report. docs/use/logs.md has the guarantees.
//
// A full console pauses the streams that go to it, and with them their files: the workers wait in write, as with a
// terminal. Drains and streams without a console are not paused. Output for a console that is gone (EPIPE, hang-up) is
// discarded; files are still written.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/logs/line_prefixer.hpp"
#include "launcher/logs/rotation.hpp"
#include "launcher/report/evidence.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher {

/// One stream of a worker.
struct PumpStream {
  os::UniqueFd fd;   ///< read end of the worker's pipe (made non-blocking; CLOEXEC is the caller's)
  std::string file;  ///< append here, byte for byte; "" = no file. The directory must exist
  bool console = true;
  bool to_stderr = false;                 ///< console stream: false = stdout, true = stderr
  std::string prefix;                     ///< before each line on the console
  bool keep_words = false;                ///< keep its last words for `drain`; else only the last prompt of a debugger
  std::vector<std::string> filters = {};  ///< lines that contain one of these words ...
  std::string filtered = {};              ///< ... are also appended here, prefixed; other streams may share the file
  Rotation rotation = {};                 ///< of `file`
  bool fold = false;                      ///< on the console, merge its lines with equal ones of other ranks
  std::uint32_t rank = 0;                 ///< names the worker in merged lines
  Millis patience = kUnfinishedFor;       ///< how long a line may be unfinished before it is shown on the console
};

class LogPump {
 public:
  /// Starts the threads, with all signals blocked in them; throws if no descriptors or threads are left. The console is
  /// the process's stdout and stderr.
  LogPump();
  /// The same with another console. The descriptors are duplicated; their flags stay as they are.
  LogPump(int console_out, int console_err);
  /// As `finish(1000)`, unless that was called.
  ~LogPump();
  LogPump(LogPump const&) = delete;
  LogPump& operator=(LogPump const&) = delete;

  /// Adds a stream; returns its id. Thread-safe, never blocks. An error of the file (no permission, disk full) is
  /// reported once by `on_error`; after that the stream has no file.
  std::uint64_t add(PumpStream stream);
  /// Writes what is in the pipe now to the file, hands it to the console (without waiting for that), and calls `done`
  /// with the last words on the pump's thread. After end of file the words stay available until a drain with `close`;
  /// an unknown id gives empty words.
  /// `close` ends the stream even if a grandchild still holds the other end: use it only when all descendants are dead
  /// or abandoned. Thread-safe, never blocks the caller; `done` may call the pump. `done` is late only if the file
  /// system of a log hangs.
  void drain(std::uint64_t id, bool close, std::function<void(LastWords words)> done);
  /// Writes a line of the launcher's own to the console's stderr, after all output drained before, held or not. Adds a
  /// newline. Thread-safe, never blocks.
  void say(std::string line);
  /// Drains and closes every stream, writes what is pending for at most `deadline_ms`, and ends the threads. False:
  /// output was dropped because a console or disk did not take it in time, or because more than 64 MiB were pending
  /// (the console has a line about that). Not thread-safe. Afterwards `add`, `drain` and `say` do nothing, and no
  /// callback comes.
  bool finish(int deadline_ms);
  /// Called on the pump's thread with one line per error of a file. Set it before the first `add`.
  void on_error(std::function<void(std::string)> handler);

 private:
  class Pump;
  std::shared_ptr<Pump> pump_;  // shared with the thread, which may outlive this object if it is stuck
  std::unique_ptr<os::BoundedThread> thread_;
  std::atomic<std::uint64_t> last_id_ = 0;
  bool complete_ = true;  // after finish: nothing was dropped
};

}  // namespace cxxrun::launcher
