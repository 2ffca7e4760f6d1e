#include "launcher/workers/whom_to_ask.hpp"

#include <map>
#include <utility>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;

namespace {

struct Process {
  Seen seen;
  std::vector<pid_t> children;
};

constexpr Seen kProgram{true, false};
constexpr Seen kDeaf{false, false};
constexpr Seen kShell{false, true};
constexpr Seen kShellWithTrap{true, true};

// Of a worker whose first process is 10; what is not in the map is gone.
WhomToAsk asked(std::map<pid_t, Process> const& processes) {
  auto const look = [&](pid_t pid, pid_t parent) -> std::optional<Seen> {
    bool const there = processes.contains(pid);
    bool const known = pid == 10 || processes.contains(parent);
    return there && known ? std::optional(processes.at(pid).seen) : std::nullopt;
  };
  WhomToAsk who;
  whom_to_ask(
      10, 1, look, [&](pid_t pid) { return processes.at(pid).children; }, who);
  return who;
}

using Pids = std::vector<pid_t>;

}  // namespace

TEST_CASE("whom_to_ask: a program that handles the signal is asked alone, and its helpers are not", "[unit]") {
  auto const who = asked({{10, {kProgram, {11, 12}}}, {11, {kProgram, {}}}, {12, {kDeaf, {}}}});
  CHECK(who.all == Pids{10});
  CHECK(who.programs == Pids{10});
}

TEST_CASE("whom_to_ask: behind a wrapper it is the program that is asked, and not its helpers", "[unit]") {
  // sh, conda, bash, python with two helpers
  auto const who = asked({{10, {kShell, {11}}},
                          {11, {kDeaf, {12}}},
                          {12, {kShell, {13}}},
                          {13, {kProgram, {14, 15}}},
                          {14, {kProgram, {}}},
                          {15, {kProgram, {}}}});
  CHECK(who.all == Pids{10, 11, 12, 13});
  CHECK(who.programs == Pids{13});
}

TEST_CASE("whom_to_ask: a shell with a trap waits for its program first, so both are asked", "[unit]") {
  auto const who =
      asked({{10, {kShellWithTrap, {11, 12}}}, {11, {kProgram, {13}}}, {12, {kDeaf, {}}}, {13, {kDeaf, {}}}});
  CHECK(who.all == Pids{10, 11, 12});
  CHECK(who.programs == Pids{10, 11});
}

TEST_CASE("whom_to_ask: a wrapper that hands the signal on is asked alone", "[unit]") {
  CHECK(asked({{10, {kProgram, {11}}}, {11, {kProgram, {}}}}).all == Pids{10});
}

TEST_CASE("whom_to_ask: a program without a handler has nothing to save, and its children may have", "[unit]") {
  auto const who = asked({{10, {kDeaf, {11, 12}}}, {11, {kDeaf, {}}}, {12, {kProgram, {}}}});
  CHECK(who.all == Pids{10, 11, 12});
  CHECK(who.programs == Pids{12});
}

TEST_CASE("whom_to_ask: children that are gone by now are passed over, and so is the worker", "[unit]") {
  CHECK(asked({{10, {kShell, {11, 12}}}, {12, {kProgram, {}}}}).all == Pids{10, 12});
  CHECK(asked({}).all.empty());
}

TEST_CASE("whom_to_ask: what only waits is known by its name, wherever it lies", "[unit]") {
  CHECK(only_waits("/usr/bin/dash"));
  CHECK(only_waits("/opt/tools/bin/bash"));
  CHECK(only_waits("/usr/bin/unshare"));
  CHECK(only_waits("busybox"));
  CHECK_FALSE(only_waits("/usr/bin/python3.11"));
  CHECK_FALSE(only_waits("/home/bash/train"));
  CHECK_FALSE(only_waits("/usr/bin/bash-helper"));
  CHECK_FALSE(only_waits(""));
}
