// Rotation: when a log file is full and the next one begins. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cxxrun::launcher {

/// --log-rotate
struct Rotation {
  std::uint64_t bytes = 0;  ///< a file is not to be larger; 0: one file for all
  std::uint32_t keep = 0;   ///< full ones that are kept; 0: all
  bool operator==(Rotation const&) const = default;
};

/// What is known of the file that is written.
struct FileFill {
  std::uint64_t bytes = 0;
  bool in_line = false;  ///< its last line is not complete
};

/// How many of `bytes` go into the file that is `fill`ed so far; all of them: the file goes on. No line is cut: one
/// that has begun is completed, and one that is longer than a file has one of its own. 0 of none-empty bytes: the next
/// file begins first.
[[nodiscard]] std::size_t fitting(FileFill const& fill, std::string_view bytes, std::uint64_t most);

}  // namespace cxxrun::launcher
