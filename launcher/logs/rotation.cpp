#include "launcher/logs/rotation.hpp"

namespace cxxrun::launcher {

std::size_t fitting(FileFill const& fill, std::string_view bytes, std::uint64_t most) {
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
