#include "src/base/os/helper_children.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/spawn.hpp"

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

constexpr Millis kCaretakerPatience{2000};
constexpr std::size_t kMostTold = std::size_t{64} * 1024;

/// A reader that waits for the end of our output must not wait for this child.
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
      Folder const above = Folder::above(path);
      if (above && !above.remove(name_in(path))) {
        (void)above.remove_marked(name_in(path));
      }
    }
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

/// Reads a byte of a regular file; only opens anything else.
SeenPath look(char const* path) {
  SeenPath seen;
  struct statfs space {};
  if (statfs(path, &space) != 0) {
    return {errno, false};
  }
  seen.full = space.f_bavail == 0 || (space.f_files > 0 && space.f_ffree == 0);
  int const file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return {errno == EACCES ? 0 : errno, seen.full};  // an executable need not be readable
  }
  char byte = 0;
  struct stat info {};
  if (fstat(file, &info) != 0 || (S_ISREG(info.st_mode) && ::read(file, &byte, 1) < 0)) {
    seen.error = errno;
  }
  ::close(file);
  return seen;
}

/// Runs after a fork in a process with threads, so it makes system calls only and allocates nothing.
[[noreturn]] void look_at_all(std::vector<std::string> const& paths, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  dup2(output, 0);
  close_from(1);
  for (std::size_t i = 0; i < paths.size() && getppid() == parent; ++i) {
    SeenPath const seen = look(paths[i].c_str());
    if (::write(0, &seen, sizeof seen) != static_cast<ssize_t>(sizeof seen)) {
      break;
    }
  }
  _exit(0);
}

}  // namespace

LimitedChild::LimitedChild(std::function<void(Say const&)> const& work) {
  Pipe ends = make_pipe();
  if (!ends) {
    error_ = std::strerror(errno);
    return;
  }
  output_ = std::move(ends.read);
  pid_t const parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    be_child(work, ends.write.get(), parent);
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

Caretaker::Caretaker() {
  Pipe words = make_pipe();
  Pipe end = make_pipe();
  if (!words || !end) {
    return;
  }
  told_ = std::move(words.write);
  ended_ = std::move(end.read);
  pid_ = fork();
  if (pid_ == 0) {
    told_ = UniqueFd();
    take_care(words.read.get(), end.write.get());
  }
  end.write = UniqueFd();
  char ready = 0;  // once it is ready, no signal for us reaches it
  static_cast<void>(retried([&] { return ::read(ended_.get(), &ready, 1); }));
}

Caretaker::~Caretaker() {
  told_ = UniqueFd();
  if (pid_ > 0) {
    pollfd entry{ended_.get(), POLLIN, 0};
    auto const deadline = Clock::now() + kCaretakerPatience;
    static_cast<void>(retried([&] { return ::poll(&entry, 1, poll_time(deadline)); }));
    waitpid(pid_, nullptr, WNOHANG);
  }
}

void Caretaker::remove_at_end(std::string const& path) const {
  if (told_ && pid_ > 0) {
    static_cast<void>(write_all(told_.get(), path + '\0'));
  }
}

std::optional<PathProbe> start_probe(std::vector<std::string> const& paths) {
  Pipe ends = make_pipe(O_NONBLOCK);
  if (!ends) {
    return std::nullopt;
  }
  PathProbe probe{0, std::move(ends.read)};
  pid_t const parent = getpid();
  probe.pid = fork();
  if (probe.pid == 0) {
    look_at_all(paths, ends.write.get(), parent);
  }
  return probe.pid > 0 ? std::optional(std::move(probe)) : std::nullopt;
}

std::vector<SeenPath> read_probe(PathProbe const& probe) {
  std::vector<SeenPath> all;
  SeenPath one;
  while (retried([&] { return ::read(probe.output.get(), &one, sizeof one); }) == static_cast<ssize_t>(sizeof one)) {
    all.push_back(one);
  }
  return all;
}

}  // namespace cxxrun::os
