#include "tests/support/ranks.hpp"

#include <cerrno>
#include <csignal>
#include <exception>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace cxxrun::test {
namespace {

void write_all(int fd, std::string const& text) {
  for (std::size_t at = 0; at < text.size();) {
    ssize_t const n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) {
      return;
    }
    at += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

[[noreturn]] void be_rank(int rank, int out, std::function<std::string(int)> const& body) {
  int code = 0;
  std::string said;
  try {
    said = body(rank);
  } catch (std::exception const& error) {
    said = std::string("exception: ") + error.what();
    code = 1;
  }
  write_all(out, said);
  _exit(code);  // no destructors of the parent's objects, no second end of the test program
}

struct Child {
  pid_t pid = 0;
  int from = -1;
  bool open = true;
};

bool read_some(Child& child, std::string& said) {
  char buffer[4096];
  ssize_t const n = read(child.from, buffer, sizeof buffer);
  if (n > 0) {
    said.append(buffer, static_cast<std::size_t>(n));
  }
  return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

std::vector<RankEnd> run_ranks(int world, std::function<std::string(int rank)> const& body,
                               std::function<void(std::vector<pid_t> const&)> const& meanwhile,
                               std::chrono::seconds guard) {
  std::vector<Child> children;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < world; ++rank) {
    int ends[2];
    if (pipe(ends) != 0) {
      throw std::runtime_error("pipe failed");
    }
    pid_t const pid = fork();
    if (pid == 0) {
      close(ends[0]);
      be_rank(rank, ends[1], body);
    }
    close(ends[1]);
    children.push_back({pid, ends[0], true});
    pids.push_back(pid);
  }
  if (meanwhile) {
    meanwhile(pids);
  }
  std::vector<RankEnd> ends(children.size());
  auto const until = std::chrono::steady_clock::now() + guard;
  bool killed = false;
  for (bool open = true; open;) {
    open = false;
    std::vector<pollfd> watched;
    for (auto const& child : children) {
      watched.push_back({child.open ? child.from : -1, POLLIN, 0});
      open = open || child.open;
    }
    auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (open && !killed && left.count() <= 0) {
      killed = true;
      for (pid_t const pid : pids) {
        kill(pid, SIGKILL);
      }
    }
    if (open) {
      poll(watched.data(), watched.size(), killed ? -1 : static_cast<int>(left.count()));
    }
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (children[i].open && watched[i].revents != 0) {
        children[i].open = read_some(children[i], ends[i].said);
      }
    }
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    close(children[i].from);
    waitpid(children[i].pid, &ends[i].status, 0);
  }
  return ends;
}

}  // namespace cxxrun::test
