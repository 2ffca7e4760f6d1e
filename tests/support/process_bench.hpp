// What process tests share: a directory that goes away, a FIFO whose end of file says that every process holding it
// is dead, and reading with a guard against hangs.
#pragma once

#include <array>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::test {

constexpr std::chrono::seconds kGuard{20};

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cxxrun-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("no temporary directory");
    }
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(TempDir const&) = delete;
  TempDir& operator=(TempDir const&) = delete;
  [[nodiscard]] std::string file(std::string const& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

using os::make_pipe;
using os::Pipe;

/// Lines from a descriptor, each awaited for at most kGuard.
class LineReader {
 public:
  explicit LineReader(os::UniqueFd fd) : fd_(std::move(fd)) {}

  /// The next line without its end; throws when none comes in time or the stream has ended.
  std::string line() {
    for (;;) {
      if (auto const end = buffer_.find('\n'); end != std::string::npos) {
        std::string out = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return out;
      }
      if (!fill()) {
        throw std::runtime_error("end of file instead of a line");
      }
    }
  }

  /// Everything up to the end of file.
  std::string rest() {
    while (fill()) {
    }
    return std::exchange(buffer_, {});
  }

 private:
  bool fill() {
    pollfd watched{fd_.get(), POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(std::chrono::milliseconds(kGuard).count())) <= 0) {
      throw std::runtime_error("nothing came in time");
    }
    std::array<char, 4096> chunk{};
    ssize_t const got = read(fd_.get(), chunk.data(), chunk.size());
    if (got > 0) {
      buffer_.append(chunk.data(), static_cast<std::size_t>(got));
    }
    return got > 0;
  }

  os::UniqueFd fd_;
  std::string buffer_;
};

/// A FIFO that probes open and keep open.
class Fifo {
 public:
  explicit Fifo(std::string path) : path_(std::move(path)), reader_(make(path_)) {}
  [[nodiscard]] std::string const& path() const { return path_; }
  std::string line() { return reader_.line(); }
  void expect_lines(int count) {
    for (int i = 0; i < count; ++i) {
      static_cast<void>(line());
    }
  }
  /// Returns once nobody holds the FIFO open any more; throws after kGuard. Only after a first line.
  void wait_until_all_are_dead() { static_cast<void>(reader_.rest()); }

 private:
  static os::UniqueFd make(std::string const& path) {
    if (mkfifo(path.c_str(), 0600) != 0) {
      throw std::runtime_error("mkfifo");
    }
    os::UniqueFd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    fcntl(fd.get(), F_SETFL, 0);
    return fd;
  }
  std::string path_;
  LineReader reader_;
};

}  // namespace cxxrun::test
