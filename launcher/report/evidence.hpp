// Evidence: what a worker's stderr says about its end, for the report of a failure. Pure.
//
// The line that says why is often old by the time the worker is dead: stacks, lists of modules and hundreds of copies
// of one message follow it. So Reason keeps that line, and the others are folded into single lines with a count. If
// stderr arrives faster than it can be parsed, only the newest bytes are kept; they are parsed once it is slower, or at
// the end, and a fold says how much was skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/line_kinds.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

inline constexpr std::size_t kTailBytes = 8192;
inline constexpr std::size_t kTailLines = 20;
inline constexpr std::size_t kToldBytes = 1000;
/// Limit of the parsed lines that are kept; a stream never takes more than 64 KiB for them.
inline constexpr std::size_t kKeptBytes = std::size_t{48} << 10;
/// Of unparsed lines at least this much is kept, at most twice as much.
inline constexpr std::size_t kHeldBytes = std::size_t{128} << 10;
/// Parsing has a budget of this many bytes at most. It grows by two bytes per microsecond. Parsing takes about 3 ns a
/// byte, so at most 1 % of a CPU.
inline constexpr std::size_t kLookBytes = std::size_t{1} << 20;

/// The end of a worker's stderr. Bytes as they came, so not necessarily UTF-8.
struct LastWords {
  std::string tail;  ///< the last lines, folded: at most kTailLines and kTailBytes, also a last one without newline
  std::string told;  ///< the line that says why the worker ended, at most kToldBytes; "" = none
  rendezvous::Role role = rendezvous::Role::culprit;
  bool operator==(LastWords const&) const = default;
};

/// Finds the line that says why a worker ended, and whether the worker is the culprit or a victim.
class Reason {
 public:
  /// Takes the next plain line. A line without a notable word is skipped at once, unless the line before makes it part
  /// of the reason.
  void add(std::string_view line);
  /// Lines are missing before the next one.
  void skip() { in_traceback_ = chained_ = ignored_ = passed_over_ = details_ = false; }
  /// At most kToldBytes; "" = no line says why.
  [[nodiscard]] std::string const& told() const { return told_; }
  [[nodiscard]] rendezvous::Role role() const { return meaning_.role; }

 private:
  void add_details(std::string_view line);

  std::string told_;
  LineMeaning meaning_;
  bool in_traceback_ = false;  ///< the next line that is not indented is the exception
  bool chained_ = false;       ///< the next exception was raised while the last one was handled
  bool caused_ = false;        ///< the next exception was raised from the last one
  bool ignored_ = false;       ///< Python ignores the next exception
  bool passed_over_ = false;   ///< it has ignored the last one
  bool details_ = false;       ///< the next line completes `told_`
};

class Evidence {
 public:
  void feed(std::string_view chunk, TimePoint now);
  [[nodiscard]] LastWords words() const;

 private:
  /// Lines that are shown together, as they are or folded.
  struct Entry {
    Shape shape = Shape::line;
    std::uint64_t pattern = 0;       ///< hash of the line without its numbers
    std::size_t count = 1;           ///< lines, frames, modules, or skipped bytes
    std::size_t threads = 0;         ///< number of threads whose stacks are folded here
    std::vector<std::string> lines;  ///< empty for a fold; of more than kAlike lines the first and the last ones
  };

  [[nodiscard]] bool affordable(std::size_t bytes, TimePoint now);
  void hold(std::string_view lines);
  void place_held();
  void place(std::string_view lines);
  void place_line(std::string_view text);
  void keep(std::string_view line);
  void make_room();
  /// The last entry if it has this shape, else a new one; always a new one if `anew`.
  Entry& fold(Shape shape, bool anew = false);
  [[nodiscard]] std::vector<std::string> shown() const;

  Reason reason_;
  OpenLine open_;
  std::string held_;                   ///< whole unparsed lines, newer than all entries
  std::size_t may_look_ = kLookBytes;  ///< budget: bytes that may be parsed now
  TimePoint filled_;                   ///< when the budget last grew

  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;    ///< memory of all entries, about
  bool in_current_ = false;  ///< within the stack of the thread that died
  std::size_t near_ = 0;     ///< frames of that stack that were kept
};

}  // namespace cxxrun::launcher
