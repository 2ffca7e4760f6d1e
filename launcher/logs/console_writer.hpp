// ConsoleWriter: writes lines to one descriptor (terminal, pipe, socket, file) on a thread of its own.
//
// O_NONBLOCK is never set on that descriptor: the user's shell or srun shares it. A pipe or terminal is opened again
// through /proc/self/fd, which gives a file description of our own that may be non-blocking. Where that is refused, and
// for files, only this thread blocks.
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
/// Output pushed beyond this is dropped. Only drains (exits, restarts) push to a full console.
inline constexpr std::size_t kConsoleMost = std::size_t{64} << 20;

/// The length of the next write of `lines` to a pipe: as many whole lines as one atomic write takes (PIPE_BUF), so that
/// other writers of the same pipe (other agents, our own log) do not cut into these lines. Pure.
[[nodiscard]] std::size_t next_piece(std::string_view lines);

/// Thread-safe, except `finish`.
class ConsoleWriter {
 public:
  /// `fd` is duplicated. `on_room` is called on the writer's thread once a console has room again after `full`
  /// returned true.
  ConsoleWriter(int fd, std::function<void()> on_room);
  ~ConsoleWriter();
  ConsoleWriter(ConsoleWriter const&) = delete;
  ConsoleWriter& operator=(ConsoleWriter const&) = delete;

  [[nodiscard]] bool is_terminal() const;
  /// True for a terminal or a file, whose readers see a line before it has ended. The reader of a pipe may wait for
  /// whole lines.
  [[nodiscard]] bool shows_parts_of_lines() const;
  /// Takes whole lines and leaves `lines` empty. Never blocks. Output for a console that is gone (EPIPE, hang-up, disk
  /// full) is discarded.
  void push(std::string& lines);
  [[nodiscard]] bool full();
  /// Writes what is pending, until the deadline. False: output was dropped because the console did not take it.
  bool finish(TimePoint deadline);

 private:
  struct Impl;
  bool start_thread();

  std::shared_ptr<Impl> impl_;  // shared with the thread, which may outlive this object if it is stuck
};

/// Whether both descriptors lead to the same terminal, pipe or file.
[[nodiscard]] bool same_console(int a, int b);

}  // namespace cxxrun::launcher
