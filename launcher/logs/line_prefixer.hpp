// LinePrefixer: bytes of one stream, in any chunks → whole lines, each with the prefix; and, when it is asked to show
// it, the line that has begun and not ended. Pure.
//
// What it gives out ends a line, so that the outputs of several streams can follow each other in any order without a
// line of one ending up inside a line of another. Where a line may stay open, is_open() says that it is: whoever writes
// something else there ends it first. All bytes but the newlines it adds itself (at the end of the stream, of a piece,
// of what it shows) pass unchanged, zeros and broken UTF-8 included; a terminal alone is spared empty redraws. Of a
// line that was shown unfinished, with carriage returns in it, the newest states alone are given out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

/// A longer line is cut into pieces of this size; each piece is a line of its own, with the prefix. Bounds the
/// memory that a worker can take from the agent by never ending its line.
inline constexpr std::size_t kLongestLine = std::size_t{16} << 20;

/// What a carriage return is. On a terminal it redraws: progress bars, which end no line for minutes, are given out
/// at each return, prefixed. Elsewhere it is a byte like any other.
enum class Return { byte, redraws };

/// What becomes of a line that is shown unfinished: it is ended, and goes on in a line of its own; or it stays open.
enum class Shown { ended, open };

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix, std::size_t longest_line = kLongestLine, Return meaning = Return::byte,
                        Shown shown = Shown::ended);

  /// Appends to `out` every line that `chunk` completes; keeps the rest for the next call. A line that is open goes on
  /// at once. True: a line has ended.
  bool feed(std::string_view chunk, std::string& out);
  /// There is something of a line that neither feed() nor show() has given out.
  [[nodiscard]] bool unfinished() const { return !shown_ && !kept_.empty(); }
  /// The line is one that carriage returns redraw, as far as was shown.
  [[nodiscard]] bool redrawn() const { return redrawn_; }
  /// Appends what there is of the unfinished line: of one with carriage returns its newest state.
  void show(std::string& out);
  /// What was given out last has no newline.
  [[nodiscard]] bool is_open() const { return open_; }
  /// Somebody has written a newline behind the open line: what follows of it begins with the prefix.
  void interrupted() { open_ = false; }
  /// The stream has ended: appends what is kept, with the newline that it lacks.
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
  Return meaning_;
  Shown stays_;
  std::string kept_;      ///< of the line that has begun and not ended; never contains a newline
  bool shown_ = false;    ///< as it is
  bool begun_ = false;    ///< the line's begin was shown, with or without a newline
  bool open_ = false;     ///< it was, without
  bool redrawn_ = false;  ///< the line has carriage returns
};

}  // namespace cxxrun::launcher
