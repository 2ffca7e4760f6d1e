#include "src/base/os/close_from.hpp"

#include <fcntl.h>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun;

namespace {

constexpr int kMany = 600;  // more than one listing of /proc/self/fd holds

/// Whether that is so for every descriptor from 3 to kMany in a child that has so many and calls `act`.
bool holds_in_child(std::function<void()> const& act, std::function<bool(int fd)> const& so) {
  pid_t const child = fork();
  if (child == 0) {
    for (int fd = 3; fd < kMany; ++fd) {
      if (dup2(STDERR_FILENO, fd) != fd) {  // NOLINT(android-cloexec-dup2): that is what has to be closed
        _exit(2);
      }
    }
    act();
    bool all = fcntl(STDERR_FILENO, F_GETFD) == 0;
    for (int fd = 3; fd < kMany; ++fd) {
      all = all && so(fd);
    }
    _exit(all ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status == 0;
}

bool is_closed(int fd) {
  return fcntl(fd, F_GETFD) < 0;
}
bool is_cloexec(int fd) {
  return fcntl(fd, F_GETFD) == FD_CLOEXEC;
}

}  // namespace

TEST_CASE("close_from: descriptors are closed, or closed by an exec, however many there are", "[process]") {
  CHECK(holds_in_child([] { os::close_from(3); }, is_closed));
  CHECK(holds_in_child([] { os::close_on_exec_from(3); }, is_cloexec));
  CHECK_FALSE(holds_in_child([] {}, is_closed));
}

TEST_CASE("close_from: /proc is not needed", "[process]") {
  if (geteuid() != 0) {
    WARN("not tested: only root may leave /proc behind");
    return;
  }
  test::TempDir const empty;
  auto const away = [&] {
    if (chroot(empty.path().c_str()) != 0) {
      _exit(3);
    }
  };
  CHECK(holds_in_child([&] { away(), os::close_from(3); }, is_closed));
  CHECK(holds_in_child([&] { away(), os::close_on_exec_from(3); }, is_cloexec));
}
