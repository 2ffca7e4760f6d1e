// ConsoleWriter: writes lines to one descriptor (terminal, pipe, socket, file) on a thread of its own.
//
// The descriptor belongs to the user's shell or to srun, and O_NONBLOCK would be shared with them: it is never set
// on it. A pipe or terminal is opened once more through /proc/self/fd, which gives a file description of our own
// that may be non-blocking; where that is refused, and for files, this thread blocks and nobody else.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// With this much pending, the streams that feed the console should pause.
inline constexpr std::size_t kConsoleFull = std::size_t{1} << 20;
/// What is pushed beyond this is dropped: only drains (exits, restarts) push to a full console.
inline constexpr std::size_t kConsoleMost = std::size_t{64} << 20;

/// The length of the next write of `lines` to a pipe: as many whole lines as are written atomically, so that other
/// writers of the same pipe (other agents, our own log) cannot get into a line that fits. Pure.
[[nodiscard]] std::size_t next_piece(std::string_view lines);

/// Thread-safe, except `finish`.
class ConsoleWriter {
 public:
  /// `fd` is duplicated, not taken. `on_room` is called on the writer's thread when a console that `full` reported
  /// as full has room again.
  ConsoleWriter(int fd, std::function<void()> on_room);
  ~ConsoleWriter();
  ConsoleWriter(ConsoleWriter const&) = delete;
  ConsoleWriter& operator=(ConsoleWriter const&) = delete;

  [[nodiscard]] bool is_terminal() const;
  /// A terminal or a file: who looks there sees a line before it has ended. Who reads a pipe may wait for its end.
  [[nodiscard]] bool shows_parts_of_lines() const;
  /// Takes whole lines; `lines` is left empty. Never blocks. A console that is gone (EPIPE, hang-up, disk full)
  /// swallows everything.
  void push(std::string& lines);
  [[nodiscard]] bool full();
  /// Writes what is pending, until the deadline. False: something was dropped because the console did not take it.
  bool finish(TimePoint deadline);

 private:
  struct Impl;
  bool start_thread();

  std::shared_ptr<Impl> impl_;  // shared with the thread, which may have to be left behind
};

/// Whether both descriptors lead to the same terminal, pipe or file.
[[nodiscard]] bool same_console(int a, int b);

}  // namespace cxxrun::launcher
