// Turns the bytes of one stream into lines for people. Pure.
//
// LinePrefixer cuts the bytes into lines with a prefix, ShowTimes says when an unfinished line is shown, and LineFilter
// picks the lines that contain certain words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// A longer line is cut into pieces of this size; each piece is a line of its own, with the prefix. This bounds the
/// memory that a worker can take from the agent by never ending its line.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

/// What a carriage return means. On a terminal it redraws the line: a progress bar, which may not end its line for
/// minutes, is given out at each return, with the prefix. Elsewhere it is a byte like any other.
enum class CarriageReturn { byte, redraws };

/// What happens to a line that is shown before its end: a newline ends it and its rest becomes another line, or it
/// stays open.
enum class PartialLine { ended, open };

/// Cuts the bytes of a stream, in any chunks, into whole lines with the prefix. On request it shows the unfinished
/// line.
///
/// The output ends with a newline, so outputs of several streams can follow each other in any order and no line ends up
/// inside a line of another stream. The exception is a line that stays open (`is_open()`): the caller ends it with a
/// newline before it writes anything else there, and calls `on_interrupted()`.
///
/// Bytes pass unchanged, zeros and broken UTF-8 included. Newlines are added at the end of the stream, of a piece and
/// of a partial line. A terminal gets no empty redraws. Of a line with carriage returns that was shown unfinished, only
/// the newest states are given out.
class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix, std::size_t longest_line = kLongestLine,
                        CarriageReturn meaning = CarriageReturn::byte, PartialLine partial = PartialLine::ended);

  /// Appends to `out` every line that `chunk` completes; keeps the rest for the next call. If a line is open, its
  /// continuation is appended at once. Returns whether a line has ended.
  bool feed(std::string_view chunk, std::string& out);
  /// Whether part of a line has been neither given out by feed() nor shown by show().
  [[nodiscard]] bool unfinished() const { return !shown_ && !kept_.empty(); }
  /// Whether carriage returns redraw the current line, as far as it was shown.
  [[nodiscard]] bool redrawn() const { return redrawn_; }
  /// Appends the unfinished line as far as it has come; of a line with carriage returns, its newest state.
  void show(std::string& out);
  /// Whether the last output has no newline at its end.
  [[nodiscard]] bool is_open() const { return open_; }
  /// The caller has ended the open line with a newline: its continuation begins with the prefix.
  void on_interrupted() { open_ = false; }
  /// At the end of the stream: appends the rest, with the missing newline.
  void flush(std::string& out);

 private:
  bool feed_terminal(std::string_view chunk, std::string& out);
  void show_redrawn(std::string& out);
  void append_lines(std::string_view lines, std::string& out) const;
  void keep(std::string_view partial, std::string& out);
  void end_line(std::string& out);
  void break_line(std::string& out);
  void append_prefix(std::string& out) const;

  std::string prefix_;
  std::size_t longest_line_;
  CarriageReturn meaning_;
  PartialLine partial_;
  std::string kept_;      ///< unfinished line, without what was given out; never contains a newline
  bool shown_ = false;    ///< `kept_` was shown as it is
  bool begun_ = false;    ///< the beginning of the line was shown, with or without a newline
  bool open_ = false;     ///< it was shown without a newline
  bool redrawn_ = false;  ///< the line has carriage returns
};

/// An unfinished line is shown after this time.
inline constexpr Millis kUnfinishedFor{750};
/// The same for a rank with standard input, whose line may be a prompt. Not zero: a program writes a line in several
/// pieces.
inline constexpr Millis kPromptFor{50};
/// How often a moving progress bar is shown.
inline constexpr Millis kBarEvery{5000};
/// A bar that has not moved for kUnfinishedFor is shown again after this time.
inline constexpr Millis kBarAtLeast{2000};
/// A line that was shown this many times before its end is treated like a bar.
inline constexpr int kFewPieces = 3;

/// Decides when an unfinished line is shown: soon. A progress bar, or a line to which dots are added, would fill the
/// console; it is shown every kBarEvery while it moves, and once it rests.
class ShowTimes {
 public:
  /// `patience`: how long a line may be unfinished before it is shown.
  explicit ShowTimes(Millis patience) : patience_(patience) {}

  void on_line_end() {
    first_ = std::nullopt;
    pieces_ = 0;
  }
  void on_bytes(TimePoint now) {
    first_ = first_.value_or(now);
    newest_ = now;
  }
  void on_shown(TimePoint now) {
    first_ = std::nullopt;
    shown_ = now;
    ++pieces_;
  }
  /// When to show what has arrived since the last show. `bar`: carriage returns redraw the line.
  [[nodiscard]] TimePoint due(bool bar) const {
    auto const first = first_.value_or(newest_);
    bool const moves = (bar && pieces_ > 0) || (pieces_ >= kFewPieces && patience_ >= kUnfinishedFor);
    return moves ? std::min(std::max(shown_ + kBarAtLeast, newest_ + kUnfinishedFor), shown_ + kBarEvery)
                 : first + patience_;
  }

 private:
  Millis patience_;
  std::optional<TimePoint> first_;  ///< oldest byte that was not shown
  TimePoint newest_;                ///< newest byte
  TimePoint shown_;                 ///< last show
  int pieces_ = 0;                  ///< how many times the line was shown
};

/// Picks, from the bytes of a stream in any chunks, the whole lines that contain one of the words, each with the
/// prefix.
class LineFilter {
 public:
  LineFilter(std::string prefix, std::vector<std::string> words);

  /// Appends to `out` every such line that `chunk` completes. At the end of the stream, feed a newline.
  void feed(std::string_view chunk, std::string& out);

 private:
  std::string prefix_;
  std::vector<std::string> words_;
  LinePrefixer cutter_{""};
  std::string lines_;  ///< whole lines, while they are examined; empty between calls, but keeps its capacity
};

}  // namespace cxxrun::launcher
