#include "src/base/os/caretaker.hpp"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/core/time.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/poll_time.hpp"

namespace cxxrun::os {
namespace {

constexpr Millis kPatience{2000};
constexpr std::size_t kMostTold = std::size_t{64} * 1024;

/// Whoever waits for the end of our output does not wait for this child.
void let_go_of_streams() {
  int const null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int const stream : {0, 1, 2}) {
    if (null < 0 || ::dup2(null, stream) < 0) {
      ::close(stream);
    }
  }
}

[[noreturn]] void take_care(int told, int ready) {
  ::setsid();
  for (int const each : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    std::signal(each, SIG_IGN);
  }
  let_go_of_streams();
  static_cast<void>(write_all(ready, "r"));
  try {
    std::istringstream paths(read_all(told, kMostTold).value_or(""));
    for (std::string path; std::getline(paths, path, '\0');) {
      std::error_code gone;
      std::filesystem::remove_all(path, gone);
    }
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

Caretaker::Caretaker() {
  std::array<int, 2> words{-1, -1};
  std::array<int, 2> end{-1, -1};
  if (pipe2(words.data(), O_CLOEXEC) != 0) {
    return;
  }
  UniqueFd told(words[0]);
  told_ = UniqueFd(words[1]);
  if (pipe2(end.data(), O_CLOEXEC) != 0) {
    return;
  }
  ended_ = UniqueFd(end[0]);
  UniqueFd alive(end[1]);
  pid_ = fork();
  if (pid_ == 0) {
    told_ = UniqueFd();
    take_care(told.get(), alive.get());
  }
  alive = UniqueFd();
  char ready = 0;  // from here on no signal of ours reaches it
  static_cast<void>(retried([&] { return ::read(ended_.get(), &ready, 1); }));
}

Caretaker::~Caretaker() {
  told_ = UniqueFd();
  if (pid_ > 0) {
    pollfd entry{ended_.get(), POLLIN, 0};
    auto const deadline = Clock::now() + kPatience;
    static_cast<void>(retried([&] { return ::poll(&entry, 1, poll_time(deadline)); }));
    waitpid(pid_, nullptr, WNOHANG);
  }
}

void Caretaker::remove_at_end(std::string const& path) const {
  if (told_ && pid_ > 0) {
    static_cast<void>(write_all(told_.get(), path + '\0'));
  }
}

}  // namespace cxxrun::os
