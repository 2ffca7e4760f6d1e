// TailBuffer: the last lines of a stream, for the report of a failure. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cxxrun::launcher {

inline constexpr std::size_t kTailBytes = 8192;
inline constexpr std::size_t kTailLines = 20;

/// The end of `text`: at most kTailLines lines and kTailBytes bytes, whole lines unless a single one is longer.
/// `whole`: false when `text` itself begins in the middle of a line.
[[nodiscard]] std::string_view last_lines(std::string_view text, bool whole = true);

class TailBuffer {
 public:
  /// Costs at most a copy of 8 KiB, however large the chunk.
  void feed(std::string_view chunk);
  /// The last lines so far, one without its newline included. Bytes as they came: not necessarily UTF-8.
  [[nodiscard]] std::string text() const;

 private:
  std::string bytes_;  ///< at most 2 * kTailBytes
  bool whole_ = true;  ///< bytes_ begins where the stream began
};

}  // namespace cxxrun::launcher
