// Several ranks in one test: forked processes that run the same function.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cxxrun::test {

struct RankEnd {
  int status = 0;    ///< as waitpid gives it; 0 when the body returned
  std::string said;  ///< what the body returned, or "exception: …"
  [[nodiscard]] bool returned() const { return status == 0; }
};

/// Runs `body(rank)` in `world` forked children at once and returns how each ended, by rank. A child that throws ends
/// with status exit 1 and the exception's text. After `guard` the rest is killed (a hang: status SIGKILL). `meanwhile`
/// runs in the parent, with the pids by rank, once all have been started: to kill or stop some.
/// Fork only from a process with one thread.
std::vector<RankEnd> run_ranks(int world, std::function<std::string(int rank)> const& body,
                               std::function<void(std::vector<pid_t> const&)> const& meanwhile = {},
                               std::chrono::seconds guard = std::chrono::seconds(120));

}  // namespace cxxrun::test
