#include "src/base/os/limited_child.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/os/fd_io.hpp"
#include "src/base/os/poll_time.hpp"

namespace cxxrun::os {
namespace {

[[noreturn]] void be_child(std::function<void(LimitedChild::Say const&)> const& work, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() == parent) {
    try {
      work([output](std::string const& text) {
        if (!write_all(output, text)) {
          _exit(1);
        }
      });
    } catch (...) {
      _exit(1);
    }
  }
  _exit(0);
}

}  // namespace

LimitedChild::LimitedChild(std::function<void(Say const&)> const& work) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    error_ = std::strerror(errno);
    return;
  }
  output_ = UniqueFd(ends[0]);
  UniqueFd const theirs(ends[1]);
  pid_t const parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    be_child(work, theirs.get(), parent);
  }
  if (pid_ < 0) {
    error_ = std::strerror(errno);
  }
}

LimitedChild::~LimitedChild() {
  if (output_ && pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, WNOHANG);
  }
}

LimitedChild::Words LimitedChild::wait_until(TimePoint deadline) {
  Words words;
  words.error = error_;
  std::array<char, 4096> bytes{};
  while (output_ && pid_ > 0) {
    pollfd entry{output_.get(), POLLIN, 0};
    if (retried([&] { return ::poll(&entry, 1, poll_time(deadline)); }) <= 0) {
      return words;
    }
    auto const size = retried([&] { return ::read(output_.get(), bytes.data(), bytes.size()); });
    if (size <= 0) {
      words.ended = size == 0;
      return words;
    }
    words.said.append(bytes.data(), static_cast<std::size_t>(size));
  }
  return words;
}

}  // namespace cxxrun::os
