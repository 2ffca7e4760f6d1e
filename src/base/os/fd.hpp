// Descriptors: an owner, pipes, reads and writes of whole texts, and times for poll. Shell.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "src/base/core/time.hpp"

namespace cxxrun::os {

/// Move-only owner of a descriptor; -1 = none. Distinct objects may be used from distinct threads.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset(other.release());
    }
    return *this;
  }
  UniqueFd(UniqueFd const&) = delete;
  UniqueFd& operator=(UniqueFd const&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor to the caller, who closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) {
      ::close(fd_);
    }
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

/// Both ends of a pipe, close-on-exec; none, with errno, when it cannot be made.
struct Pipe {
  UniqueFd read;
  UniqueFd write;
  explicit operator bool() const noexcept { return static_cast<bool>(read); }
};
[[nodiscard]] inline Pipe make_pipe(int flags = 0) {
  std::array<int, 2> ends{-1, -1};
  return ::pipe2(ends.data(), O_CLOEXEC | flags) == 0 ? Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])} : Pipe{};
}

/// Makes the system call again when a signal has interrupted it.
template <class Call>
[[nodiscard]] auto retried(Call const& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

/// Writes all of it. False with errno if it cannot.
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

/// Reads to the end, but at most `most` bytes. Nothing with errno if it cannot.
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

/// The milliseconds until `deadline`, for poll and epoll: rounded up so that none returns before it, 0 once it has
/// passed, at most an hour. So call poll in a loop.
[[nodiscard]] inline int poll_time(TimePoint deadline) {
  constexpr std::int64_t kLongest = 3'600'000;
  auto const left = std::chrono::ceil<Millis>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest));
}

}  // namespace cxxrun::os
