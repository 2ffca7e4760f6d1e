// Puts the workers' output on the launcher's stdout and stderr. Shell.
//
// Console is one of the two, ConsoleStream is one worker stream shown there, Consoles owns both. Output is staged and
// then pushed to the console's writer. Lines of a folded stream are held for a while, to be merged with equal lines of
// other ranks. A line that stays unfinished is shown as far as it has come. Everything runs on the pump's thread,
// except where noted.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/logs/console_writer.hpp"
#include "launcher/logs/line_folder.hpp"
#include "launcher/logs/line_prefixer.hpp"

namespace cxxrun::launcher {

class ConsoleStream;

struct Console {
  Console(int fd, std::function<void()> wake) : writer(fd, std::move(wake)) {}
  ConsoleWriter writer;
  std::string staged;                      ///< output since the last push
  std::array<LineFolder, 2> folders;       ///< of the workers' stdout and stderr, which are not ordered to each other
  std::string lines;                       ///< lines on their way to a folder; keeps its capacity
  ConsoleStream* open = nullptr;           ///< the stream whose line is open at the end of the output
  std::vector<ConsoleStream*> unfinished;  ///< streams that may have an unfinished line to show
  std::optional<TimePoint> look;           ///< when the first of them is due

  /// Output of `by` was staged from `begin` on. If a line of another stream is open, ends it before that output.
  /// `by` is nullptr for output of no stream.
  void end_open_line(std::size_t begin, ConsoleStream const* by);
  /// Shows the lines that have been unfinished for long enough.
  void show_unfinished(TimePoint now);
};

class Consoles {
 public:
  Consoles(int out, int err, std::function<void()> const& wake);

  [[nodiscard]] Console& of(bool to_stderr) { return *both_[to_stderr ? 1 : 0]; }
  /// Pushes what is staged and what has been held for long enough. Returns when to call it again.
  std::optional<TimePoint> push();
  /// Writes a line of the launcher's own, behind everything that is held. Thread-safe. False: lines are held or a line
  /// is open, and the caller must have say_waiting() called on the pump's thread.
  [[nodiscard]] bool say(std::string line);
  void say_waiting();
  /// Writes what is pending, until the deadline. From any thread, once the pump's thread has ended or is stuck. False:
  /// output was dropped.
  bool finish(TimePoint deadline);

 private:
  std::array<std::shared_ptr<Console>, 2> both_;  ///< the same one twice if both lead to one place
  std::mutex mutex_;
  std::string said_;                   ///< own lines that wait behind held output
  std::atomic<bool> holding_ = false;  ///< lines are held, or a line is open; written by the pump's thread
};

struct ConsoleStreamOptions {
  bool to_stderr = false;
  std::uint32_t rank = 0;
  std::string prefix;
  bool fold = false;  ///< show equal lines of several ranks once
  Millis patience;    ///< how long a line may be unfinished before it is shown
};

/// One worker stream on its console.
class ConsoleStream {
 public:
  ConsoleStream(Console& console, std::uint64_t id, ConsoleStreamOptions const& options);
  ~ConsoleStream() = default;
  ConsoleStream(ConsoleStream const&) = delete;
  ConsoleStream& operator=(ConsoleStream const&) = delete;
  ConsoleStream(ConsoleStream&&) = delete;
  ConsoleStream& operator=(ConsoleStream&&) = delete;
  void feed(std::string_view bytes);
  void end();  ///< no feed() follows
  [[nodiscard]] Console& console() const { return console_; }
  /// Shows the unfinished line if it is due. Returns when it will be due, if it is not yet.
  std::optional<TimePoint> show_unfinished(TimePoint now);
  void on_interrupted() { prefixer_.on_interrupted(); }

 private:
  /// `append` adds output of the prefixer to a string; the output is staged, or held by the folder.
  template <class Append>
  void emit(Append const& append);
  void hold();

  Console& console_;
  LinePrefixer prefixer_;
  ShowTimes times_;
  bool listed_ = false;  ///< in the console's `unfinished`
  LineFolder* folder_;   ///< nullptr: not folded
  std::uint64_t id_;
};

}  // namespace cxxrun::launcher
