#include "src/base/os/children.hpp"

#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/os/process_info.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;

namespace {

pid_t waiting_child() {
  pid_t const child = fork();
  if (child == 0) {
    for (;;) {
      pause();
    }
  }
  REQUIRE(child > 0);
  return child;
}

void end(pid_t child) {
  REQUIRE(kill(child, SIGKILL) == 0);
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

/// Another process with that pid and another start time; 0 where pids cannot be chosen.
pid_t successor_of(pid_t pid, std::uint64_t start) {
  for (int tries = 0; tries < 10000; ++tries) {
    if (!(std::ofstream("/proc/sys/kernel/ns_last_pid") << pid - 1 << std::flush)) {
      return 0;
    }
    pid_t const child = waiting_child();
    auto const stat = os::read_stat(child);
    if (child == pid && stat && stat->start != start) {
      return child;
    }
    end(child);
  }
  return 0;
}

}  // namespace

TEST_CASE("held process: it runs, takes a signal, and has ended before it is reaped", "[process]") {
  pid_t const child = waiting_child();
  auto const held = os::HeldProcess::hold(child);
  REQUIRE(held);
  CHECK(held->runs());
  CHECK(held->send(SIGKILL));
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(held->runs());
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(held->runs());
  CHECK_FALSE(held->send(SIGKILL));
  CHECK_FALSE(os::HeldProcess::hold(child));
}

TEST_CASE("held process: who has its pid afterwards is not hit", "[process]") {
  pid_t const child = waiting_child();
  auto const start = os::read_stat(child)->start;
  CHECK(start > 0);
  auto const held = os::HeldProcess::hold(child);
  REQUIRE(held);
  end(child);
  pid_t const other = successor_of(child, start);
  if (other == 0) {
    WARN("not tested: pids cannot be chosen here");
    return;
  }
  CHECK_FALSE(held->runs());
  CHECK_FALSE(held->send(SIGKILL));
  CHECK(os::HeldProcess::hold(other)->runs());
  end(other);
}
