// Helpers for tests of the log pump: pipes, and a console whose reader starts when it is told to.
#pragma once

#include <array>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "launcher/logs/log_pump.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::test {

using os::make_pipe;
using os::Pipe;

/// Writes everything; false when the reader is gone.
inline bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

inline std::string read_to_end(int fd) {
  std::string all;
  std::string buffer(65536, '\0');
  for (ssize_t n = 0; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
    all.append(buffer, 0, static_cast<std::size_t>(n));
  }
  return all;
}

inline std::string file_text(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// One console pipe. Nobody reads it until `start_reading`.
class TestConsole {
 public:
  TestConsole() = default;
  TestConsole(TestConsole const&) = delete;
  TestConsole& operator=(TestConsole const&) = delete;
  ~TestConsole() { pipe_.write.reset(); }  // lets the reader end before its future is waited for

  [[nodiscard]] int fd() const { return pipe_.write.get(); }
  void start_reading() {
    text_ = std::async(std::launch::async, [fd = pipe_.read.get()] { return read_to_end(fd); });
  }
  /// Everything written; call after the pump has finished.
  [[nodiscard]] std::string text() {
    pipe_.write.reset();
    if (!text_.valid()) {
      start_reading();
    }
    return text_.get();
  }
  void close_reader() { pipe_.read.reset(); }

 private:
  Pipe pipe_ = make_pipe();
  std::future<std::string> text_;
};

/// A private directory, removed at the end.
class TempDir {
 public:
  TempDir() {
    std::string path = "/tmp/cxxrun-test-XXXXXX";
    path_ = mkdtemp(path.data());
  }
  TempDir(TempDir const&) = delete;
  TempDir& operator=(TempDir const&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Drains and waits; the tail of what it says, else the line that says why; "(hangs)" when no answer comes in a
/// generous time.
inline std::string drain(launcher::LogPump& pump, std::uint64_t id, bool close) {
  auto answer = std::make_shared<std::promise<std::string>>();
  pump.drain(id, close, [answer](launcher::LastWords const& words) {
    answer->set_value(words.tail.empty() ? words.told : words.tail);
  });
  auto future = answer->get_future();
  return future.wait_for(std::chrono::seconds(60)) == std::future_status::ready ? future.get() : "(hangs)";
}

}  // namespace cxxrun::test
