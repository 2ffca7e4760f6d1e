// Evidence: what one worker's stderr says of its end, for the report of a failure. Pure.
//
// The line that says why is often old by the time the worker is dead: stacks, lists of modules and hundreds of copies
// of one message follow it. So it is kept apart; the rest is folded into one line with its number. Of a worker that
// writes faster than lines can be looked at one by one the last of them are kept as they came, and looked at when it is
// slower again, or dead: a fold says then how much was passed over before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/line_kinds.hpp"
#include "launcher/report/open_line.hpp"
#include "launcher/report/reason.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

inline constexpr std::size_t kTailBytes = 8192;
inline constexpr std::size_t kTailLines = 20;
/// What is kept of a stream, once it was looked at: never more memory for a worker than 64 KiB.
inline constexpr std::size_t kKeptBytes = std::size_t{48} << 10;
/// Of lines as they came, while there is no time to look at them: at least so much is kept, at most twice as much.
inline constexpr std::size_t kHeldBytes = std::size_t{128} << 10;
/// Of so much at once each line is looked at, and again of twice as many bytes as microseconds have passed. That takes
/// about 3 ns a byte, so 1 % of a CPU at most.
inline constexpr std::size_t kLookBytes = std::size_t{1} << 20;

/// What a worker has said before it ended. Bytes as they came: not necessarily UTF-8.
struct LastWords {
  std::string tail;  ///< the last lines, folded: at most kTailLines and kTailBytes; one without its newline included
  std::string told;  ///< the line that says why, at most kToldBytes; "" = none does
  rendezvous::Role role = rendezvous::Role::culprit;
  bool operator==(LastWords const&) const = default;
};

class Evidence {
 public:
  void feed(std::string_view chunk, TimePoint now);
  [[nodiscard]] LastWords words() const;

 private:
  /// Lines that are shown together, as one or folded.
  struct Entry {
    Shape shape = Shape::line;
    std::uint64_t look = 0;
    std::size_t count = 1;           ///< lines, frames, modules, or bytes that were passed over
    std::size_t threads = 0;         ///< stacks that are in it
    std::vector<std::string> lines;  ///< of a fold none; of more than kAlike lines the first and the last ones
  };

  [[nodiscard]] bool affordable(std::size_t bytes, TimePoint now);
  void hold(std::string_view lines);
  void place_held();
  void place(std::string_view lines);
  void place_line(std::string_view text);
  void keep(std::string_view line);
  void make_room();
  /// The last entry, of that shape.
  Entry& fold(Shape shape, bool anew = false);
  [[nodiscard]] std::vector<std::string> shown() const;

  Reason reason_;
  OpenLine open_;
  std::string held_;  ///< whole lines as they came, after all entries: to be looked at when there is time
  std::size_t may_look_ = kLookBytes;  ///< at that many bytes
  TimePoint filled_;                   ///< when there was last more

  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;    ///< of all entries, with what their memory costs
  bool in_current_ = false;  ///< within the stack of the thread that died
  std::size_t near_ = 0;     ///< frames of it that have been kept
};

}  // namespace cxxrun::launcher
