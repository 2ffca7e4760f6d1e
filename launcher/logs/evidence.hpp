// Evidence: what one worker's stderr says of its end, for the report of a failure. Pure.
//
// The line that says why is often old by the time the worker is dead: stacks, lists of modules and hundreds of copies
// of one message follow it. So it is kept apart, and those are folded into one line with their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/logs/line_kinds.hpp"
#include "rendezvous/values/worker_exit.hpp"

namespace cxxrun::launcher {

inline constexpr std::size_t kTailBytes = 8192;
inline constexpr std::size_t kTailLines = 20;
inline constexpr std::size_t kToldBytes = 1000;
/// What is kept of a stream, in all: never more memory for a worker than 64 KiB.
inline constexpr std::size_t kKeptBytes = std::size_t{48} << 10;
/// Of a longer line the middle is left out.
inline constexpr std::size_t kLineBytes = 4096;

/// What a worker has said before it ended. Bytes as they came: not necessarily UTF-8.
struct LastWords {
  std::string tail;  ///< the last lines, folded: at most kTailLines and kTailBytes; one without its newline included
  std::string told;  ///< the line that says why, at most kToldBytes; "" = none does
  rendezvous::Role role = rendezvous::Role::culprit;
  bool operator==(LastWords const&) const = default;
};

class Evidence {
 public:
  void feed(std::string_view chunk);
  [[nodiscard]] LastWords words() const;

 private:
  /// Lines that are shown together, as one or folded.
  struct Entry {
    Shape shape = Shape::line;
    std::uint64_t look = 0;
    std::size_t count = 1;           ///< lines, frames or modules
    std::size_t threads = 0;         ///< stacks that are in it
    std::vector<std::string> lines;  ///< of a fold none; of more than kAlike lines the first and the last ones
  };

  void extend(std::string_view piece);
  void end_line();
  void take(std::string_view line);
  void consider(std::string_view line);
  void follow(std::string_view line);
  void keep(std::string_view line);
  /// The last entry, of that shape.
  Entry& fold(Shape shape, bool anew = false);
  [[nodiscard]] std::vector<std::string> shown() const;

  std::string line_;  ///< that has begun and not ended, at most kLineBytes and a return
  bool cut_ = false;  ///< its middle is missing
  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;  ///< of all entries, with what their memory costs

  std::string told_;
  Telling telling_;
  bool in_traceback_ = false;  ///< the next line that is not indented is its exception
  bool chained_ = false;       ///< the next exception came while the last one was handled
  bool ignored_ = false;       ///< the next exception is one that Python ignores
  bool details_ = false;       ///< the next line belongs to the one that says why
  bool in_current_ = false;    ///< within the stack of the thread that died
  std::size_t near_ = 0;       ///< frames of it that have been kept
};

}  // namespace cxxrun::launcher
