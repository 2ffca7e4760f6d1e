// A child that a rank forks, and what becomes of its calls.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/support/comm_world.hpp"

namespace cxxrun::test {

/// How many of the calls are refused with the parent's name. `begin`: what the child does first.
inline int refused_in_child(
    std::vector<std::function<void()>> const& calls, std::function<void()> const& begin = [] {}) {
  std::fflush(stdout);
  pid_t const child = fork();
  if (child == 0) {
    begin();
    int refused = 0;
    for (auto const& call : calls) {
      try {
        call();
      } catch (Failure const& failure) {
        std::string const parent = "was forked from process " + std::to_string(getppid());
        refused += failure.error().code == Errc::usage && has(failure.what(), parent) ? 1 : 0;
      } catch (...) {
      }
    }
    _exit(refused);
  }
  int status = -1;
  expect(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child's end");
  return WEXITSTATUS(status);
}

}  // namespace cxxrun::test
