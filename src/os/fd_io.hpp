// Whole reads and writes of a descriptor; a signal interrupts neither. Shell.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

namespace cxxrun::os {

/// All of it, or false and errno.
[[nodiscard]] inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const done = ::write(fd, bytes.data(), bytes.size());
    if (done == 0) {
      errno = ENOSPC;
    }
    if (done == 0 || (done < 0 && errno != EINTR)) {
      return false;
    }
    bytes.remove_prefix(done < 0 ? 0 : static_cast<std::size_t>(done));
  }
  return true;
}

/// All there is, but no more than `most`; nothing and errno when it cannot be read.
[[nodiscard]] inline std::optional<std::string> read_all(int fd, std::size_t most) {
  std::string text;
  std::array<char, 4096> chunk{};
  while (text.size() < most) {
    auto const got = ::read(fd, chunk.data(), std::min(chunk.size(), most - text.size()));
    if (got == 0) {
      break;
    }
    if (got < 0 && errno != EINTR) {
      return std::nullopt;
    }
    text.append(chunk.data(), got < 0 ? 0 : static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace cxxrun::os
