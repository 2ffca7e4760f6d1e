// Rotation: when a log file is full and the next one begins. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cxxrun::launcher {

/// --log-rotate
struct Rotation {
  std::uint64_t bytes = 0;  ///< size limit of a file; 0: no rotation
  std::uint32_t keep = 0;   ///< how many full files are kept; 0: all
  bool operator==(Rotation const&) const = default;
};

/// The state of the current file.
struct FileFill {
  std::uint64_t bytes = 0;
  bool in_line = false;  ///< its last line is not complete
};

/// How many of `bytes` go into the current file, which may hold `most` bytes. No line is cut: a line that has begun is
/// completed, and a line longer than a file gets a file of its own. 0, with `bytes` not empty: begin the next file
/// first.
[[nodiscard]] inline std::size_t fitting(FileFill const& fill, std::string_view bytes, std::uint64_t most) {
  auto const room = most > fill.bytes ? most - fill.bytes : 0;
  if (bytes.size() <= room) {
    return bytes.size();
  }
  if (auto const last = bytes.substr(0, room).rfind('\n'); last != std::string_view::npos) {
    return last + 1;
  }
  if (fill.bytes > 0 && !fill.in_line) {
    return 0;
  }
  auto const end = bytes.find('\n', room);
  return end == std::string_view::npos ? bytes.size() : end + 1;
}

}  // namespace cxxrun::launcher
