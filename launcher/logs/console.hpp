// Console: one end of the workers' output that people see. Consoles: stdout's and stderr's. Shell.
//
// What is shown is staged and pushed to the console's writer at once. A stream that is folded has its lines held for a
// while, for equal ones of others. A line that is unfinished for a while is shown as it is. For the pump's thread
// alone, where nothing else is said.
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
#include "launcher/logs/show_times.hpp"

namespace cxxrun::launcher {

class ShownStream;

struct Console {
  Console(int fd, std::function<void()> wake) : writer(fd, std::move(wake)) {}
  ConsoleWriter writer;
  std::string staged;                    ///< since the last push
  std::array<LineFolder, 2> folders;     ///< of workers' stdout and stderr, which have no order between them
  std::string lines;                     ///< about to be held; keeps its room
  ShownStream* open = nullptr;           ///< whose line is unfinished where the next byte will stand
  std::vector<ShownStream*> unfinished;  ///< may have something to show that is unfinished, ...
  std::optional<TimePoint> look;         ///< ... the first of them then

  /// What is staged from `begin` on is not `by`'s: a line of another stream that is open ends before it.
  void end_open_line(std::size_t begin, ShownStream const* by);
  /// Shows what has been unfinished for long enough.
  void show_unfinished(TimePoint now);
};

class Consoles {
 public:
  Consoles(int out, int err, std::function<void()> const& wake);

  [[nodiscard]] Console& of(bool to_stderr) { return *both_[to_stderr ? 1 : 0]; }
  /// What is staged, and what has been held for long enough. Returns when to call it again.
  std::optional<TimePoint> push();
  /// A line of the launcher's own, behind everything that is held. From any thread. False: something is held, or a
  /// line is open, and say_waiting() is to follow on the pump's thread.
  [[nodiscard]] bool say(std::string line);
  void say_waiting();
  /// From any thread, once the pump's is over or stuck. False: something was dropped.
  bool finish(TimePoint deadline);

 private:
  std::array<std::shared_ptr<Console>, 2> both_;  ///< the same one when both lead to one place
  std::mutex mutex_;
  std::string said_;                   ///< waits behind what is held
  std::atomic<bool> holding_ = false;  ///< lines, or a line open; written by the pump's thread
};

struct Showing {
  bool to_stderr = false;
  std::uint32_t rank = 0;
  std::string prefix;
  bool fold = false;  ///< equal lines of several ranks make one
  Millis patience;    ///< how long a line may be unfinished before it is shown
};

/// One stream of a worker on its console.
class ShownStream {
 public:
  ShownStream(Console& console, std::uint64_t id, Showing const& how);
  ~ShownStream() = default;
  ShownStream(ShownStream const&) = delete;
  ShownStream& operator=(ShownStream const&) = delete;
  ShownStream(ShownStream&&) = delete;
  ShownStream& operator=(ShownStream&&) = delete;
  void feed(std::string_view bytes);
  void end();  ///< no feed() follows
  [[nodiscard]] Console& console() const { return console_; }
  /// Shows what is unfinished when it is time to; returns when it will be.
  std::optional<TimePoint> show_unfinished(TimePoint now);
  void interrupted() { prefixer_.interrupted(); }

 private:
  /// What the prefixer appends goes to the console, or is held.
  template <class Append>
  void give(Append const& append);
  void hold();

  Console& console_;
  LinePrefixer prefixer_;
  ShowTimes times_;
  bool listed_ = false;  ///< among the console's unfinished
  LineFolder* folder_;   ///< nullptr: not folded
  std::uint64_t id_;
};

}  // namespace cxxrun::launcher
