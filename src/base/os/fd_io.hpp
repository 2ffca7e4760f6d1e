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

/// What a call of the system gives; it is made again when a signal has interrupted it.
template <class Call>
[[nodiscard]] auto retried(Call const& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

/// All of it, or false and errno.
[[nodiscard]] inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const done = retried([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (done == 0) {
      errno = ENOSPC;
    }
    if (done <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

/// All there is, but no more than `most`; nothing and errno when it cannot be read.
[[nodiscard]] inline std::optional<std::string> read_all(int fd, std::size_t most) {
  std::string text;
  std::array<char, 4096> chunk{};
  while (text.size() < most) {
    auto const got = retried([&] { return ::read(fd, chunk.data(), std::min(chunk.size(), most - text.size())); });
    if (got == 0) {
      break;
    }
    if (got < 0) {
      return std::nullopt;
    }
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace cxxrun::os
