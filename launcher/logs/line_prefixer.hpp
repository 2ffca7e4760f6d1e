// LinePrefixer: bytes of one stream, in any chunks → whole lines, each with the prefix. Pure.
//
// What it gives out always ends a line, so that the outputs of several streams can follow each other in
// any order without a line of one ending up inside a line of another. All bytes but the newlines it adds itself
// (at the end of the stream, at the end of a piece) pass unchanged, zeros and broken UTF-8 included; a terminal alone
// is spared empty redraws.
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

class LinePrefixer {
 public:
  explicit LinePrefixer(std::string prefix, std::size_t longest_line = kLongestLine, Return meaning = Return::byte);

  /// Appends to `out` every line that `chunk` completes; keeps the rest for the next call.
  void feed(std::string_view chunk, std::string& out);
  /// The stream has ended: appends what is kept, with the newline that it lacks.
  void flush(std::string& out);

 private:
  void feed_terminal(std::string_view chunk, std::string& out);
  void append_lines(std::string_view lines, std::string& out) const;
  void keep(std::string_view partial, std::string& out);

  std::string prefix_;
  std::size_t longest_line_;
  Return meaning_;
  std::string kept_;  ///< the line that has begun and not ended; never contains a newline
};

}  // namespace cxxrun::launcher
