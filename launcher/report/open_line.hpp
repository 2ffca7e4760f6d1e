// OpenLine: a line of a stream that has begun and not ended, as a terminal would show it. Pure.
//
// A carriage return begins the line anew: of a progress bar the last state is kept. One that ends the line means
// nothing. Of a line that is longer than kLineBytes the middle is left out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

inline constexpr std::size_t kLineBytes = 4096;

class OpenLine {
 public:
  /// Without its newline.
  void extend(std::string_view piece);
  /// The line as it is shown; the next one begins.
  [[nodiscard]] std::string end();
  [[nodiscard]] bool empty() const { return line_.empty(); }

 private:
  std::string line_;  ///< at most kLineBytes and a return
  bool cut_ = false;  ///< its middle is missing
};

/// A whole line, as it is shown, without colours and without PyTorch's name of the rank. It lies in `room` where it is
/// not as it came.
[[nodiscard]] std::string_view plain_line(std::string_view whole, std::string& room);

}  // namespace cxxrun::launcher
