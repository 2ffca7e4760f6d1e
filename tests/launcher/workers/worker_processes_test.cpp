#include "launcher/workers/worker_processes.hpp"

#include <map>
#include <utility>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::string_literals;

namespace {

struct Process {
  SignalResponse response;
  std::vector<pid_t> children;
};

constexpr SignalResponse kProgram{true, false};
constexpr SignalResponse kDeaf{false, false};
constexpr SignalResponse kShell{false, true};
constexpr SignalResponse kShellWithTrap{true, true};

// The targets among the processes of a worker that begins with pid 10; a process that is not in the map is gone.
SignalTargets asked(std::map<pid_t, Process> const& processes) {
  auto const inspect = [&](pid_t pid, pid_t parent) -> std::optional<SignalResponse> {
    bool const there = processes.contains(pid);
    bool const known = pid == 10 || processes.contains(parent);
    return there && known ? std::optional(processes.at(pid).response) : std::nullopt;
  };
  SignalTargets targets;
  add_signal_targets(
      10, 1, inspect, [&](pid_t pid) { return processes.at(pid).children; }, targets);
  return targets;
}

using Pids = std::vector<pid_t>;

/// The workers are the processes 100 and 101. 0 and -1 must never be looked up, so they give a wrong answer.
std::optional<std::uint32_t> who(pid_t pid) {
  switch (pid) {
    case 100: return 0;
    case 101: return 1;
    case 0:
    case -1: return 7;
    default: return std::nullopt;
  }
}

std::optional<std::uint32_t> worker_of(pid_t pid, pid_t session) {
  return cxxrun::launcher::worker_of({pid, session, ""}, who);
}

}  // namespace

TEST_CASE("add_signal_targets: a program that handles the signal is asked alone, and its helpers are not", "[unit]") {
  auto const targets = asked({{10, {kProgram, {11, 12}}}, {11, {kProgram, {}}}, {12, {kDeaf, {}}}});
  CHECK(targets.all == Pids{10});
  CHECK(targets.programs == Pids{10});
}

TEST_CASE("add_signal_targets: behind a wrapper it is the program that is asked, and not its helpers", "[unit]") {
  // sh, conda, bash, python with two helpers
  auto const targets = asked({{10, {kShell, {11}}},
                              {11, {kDeaf, {12}}},
                              {12, {kShell, {13}}},
                              {13, {kProgram, {14, 15}}},
                              {14, {kProgram, {}}},
                              {15, {kProgram, {}}}});
  CHECK(targets.all == Pids{10, 11, 12, 13});
  CHECK(targets.programs == Pids{13});
}

TEST_CASE("add_signal_targets: a shell with a trap waits for its program first, so both are asked", "[unit]") {
  auto const targets =
      asked({{10, {kShellWithTrap, {11, 12}}}, {11, {kProgram, {13}}}, {12, {kDeaf, {}}}, {13, {kDeaf, {}}}});
  CHECK(targets.all == Pids{10, 11, 12});
  CHECK(targets.programs == Pids{10, 11});
}

TEST_CASE("add_signal_targets: a wrapper that hands the signal on is asked alone", "[unit]") {
  CHECK(asked({{10, {kProgram, {11}}}, {11, {kProgram, {}}}}).all == Pids{10});
}

TEST_CASE("add_signal_targets: a program without a handler has nothing to save, and its children may have", "[unit]") {
  auto const targets = asked({{10, {kDeaf, {11, 12}}}, {11, {kDeaf, {}}}, {12, {kProgram, {}}}});
  CHECK(targets.all == Pids{10, 11, 12});
  CHECK(targets.programs == Pids{12});
}

TEST_CASE("add_signal_targets: children that are gone by now are passed over, and so is the worker", "[unit]") {
  CHECK(asked({{10, {kShell, {11, 12}}}, {12, {kProgram, {}}}}).all == Pids{10, 12});
  CHECK(asked({}).all.empty());
}

TEST_CASE("only_waits: what only waits is known by its name, wherever it lies", "[unit]") {
  CHECK(only_waits("/usr/bin/dash"));
  CHECK(only_waits("/opt/tools/bin/bash"));
  CHECK(only_waits("/usr/bin/unshare"));
  CHECK(only_waits("busybox"));
  CHECK_FALSE(only_waits("/usr/bin/python3.11"));
  CHECK_FALSE(only_waits("/home/bash/train"));
  CHECK_FALSE(only_waits("/usr/bin/bash-helper"));
  CHECK_FALSE(only_waits(""));
}

TEST_CASE("left_behind: one line names the processes, and the rank where it is known of all", "[unit]") {
  CHECK(killed_line({{4711, "wandb-service", 1}, {4712, "sh", 1}}) ==
        "killed 2 processes that rank 1 had left: wandb-service (4711), sh (4712); a worker has to wait for what it "
        "starts");
  CHECK(killed_line({{1, "a", 0}, {2, "b", 1}, {3, "c", 2}, {4, "d", 2}, {5, "e", 7}, {6, "f", 7}}) ==
        "killed 6 processes that ranks 0-2,7 had left: a (1), b (2), c (3), d (4) and 2 more; a worker has to wait for "
        "what "
        "it starts");
  CHECK(killed_line({{1, "a", std::nullopt}}).starts_with("killed 1 process that workers had left: a (1);"));
  CHECK(killed_line({{1, "a", 3}, {2, "b", std::nullopt}}).starts_with("killed 2 processes that workers had left: "));
}

TEST_CASE("left_behind: a process is named by its command line, one safe word of it being short", "[unit]") {
  CHECK(program_name("/usr/bin/python3\0-m\0upload\0"s, "python3") == "python3 -m upload");
  CHECK(program_name("wandb-service(2-77-s-33)\0"s, "python3") == "wandb-service(2-77-s-33)");
  CHECK(program_name("", "kworker") == "kworker");
  CHECK(program_name("sh\0-c\0"s + std::string(5000, 'x'), "sh").size() < 60);
  CHECK(program_name("a\n\x1b[2J\0"s, "a").find('\x1b') == std::string::npos);
}

TEST_CASE("left_behind: the rank is that of the environment, by its whole name", "[unit]") {
  CHECK(rank_in("GROUP_RANK=4\0LOCAL_RANK=1\0RANK=9\0X=1\0"s) == 9);
  CHECK_FALSE(rank_in("LOCAL_RANK=1\0"s));
  CHECK_FALSE(rank_in("RANK=x\0"s));
  CHECK_FALSE(rank_in(""));
}

TEST_CASE("admission: a process is of the worker that it is, or in whose session it is", "[unit]") {
  CHECK(worker_of(100, 100) == 0U);
  CHECK(worker_of(555, 101) == 1U);
  CHECK_FALSE(worker_of(555, 555));
  CHECK_FALSE(worker_of(555, 99));
}

TEST_CASE("admission: what has no number here is nobody's, nor is who is gone", "[unit]") {
  CHECK_FALSE(worker_of(0, 0));
  CHECK_FALSE(worker_of(0, 100));  // getsid(0) would be our own session, whoever calls
  CHECK_FALSE(worker_of(555, 0));
  CHECK_FALSE(worker_of(555, -1));
  CHECK_FALSE(worker_of(-1, -1));
}

TEST_CASE("admission: what a wrapper moves into another session is of the worker that it descends from", "[unit]") {
  CHECK(cxxrun::launcher::worker_of({555, 555, "", {554, 101, 50}}, who) == 1U);
  CHECK_FALSE(cxxrun::launcher::worker_of({555, 555, "", {554, 50, 1}}, who));
  CHECK_FALSE(cxxrun::launcher::worker_of({0, 0, "", {100}}, who));
}

TEST_CASE("admission: an orphan of this agent is of the worker that its environment names, and no stranger is",
          "[unit]") {
  CHECK(worker_named({555, 555, "", {554, 50}, true, 101}, who) == 1U);
  CHECK_FALSE(worker_named({555, 555, "", {554, 51}, false, 101}, who));  // its environment does not count
  CHECK_FALSE(worker_named({555, 555, "", {554, 50}, true, 0}, who));
  CHECK_FALSE(worker_named({555, 555, "", {554, 50}, true, 102}, who));  // that worker has ended
  CHECK_FALSE(worker_named({0, 0, "", {}, true, 101}, who));
}

TEST_CASE("admission: an environment names a worker of this agent, not of another one", "[unit]") {
  CHECK(rank_of_agent("LOCAL_RANK=1\0RANK=9\0CXXRUN_AGENT=/tmp/a\0"s, "/tmp/a") == 9U);
  CHECK(rank_of_agent("CXXRUN_PROVER=/tmp/a\0RANK=1\0"s, "/tmp/a") == 1U);
  CHECK_FALSE(rank_of_agent("RANK=1\0CXXRUN_AGENT=/tmp/b\0"s, "/tmp/a"));
  CHECK_FALSE(rank_of_agent("RANK=1\0"s, "/tmp/a"));
  CHECK_FALSE(rank_of_agent("RANK=x\0CXXRUN_AGENT=/tmp/a\0"s, "/tmp/a"));
  CHECK_FALSE(rank_of_agent("", ""));
}

TEST_CASE("admission: who is refused is told why, and what to do instead", "[unit]") {
  CHECK(no_worker({555, 555, "", {1}}).find("that a daemon starts") != std::string::npos);
  CHECK(no_worker({555, 555, "", {50}, true}).find("podman run --env-host") != std::string::npos);
  CHECK(no_worker({}).find("PID namespace") != std::string::npos);
}

TEST_CASE("admission: one process of each worker is let in, for the generation that runs", "[unit]") {
  CHECK(why_not({1, 0, 3, 3}, {}).empty());
  CHECK(why_not({std::nullopt, 0, 3, 3}, {555, 555, ""}) == no_worker({555, 555, ""}));
  CHECK(why_not({1, 0, 2, 3}, {}) == "it is of generation 2, and this is generation 3");
  CHECK(why_not({1, 555, 3, 3}, {}) == "pid 555 is registered in its place");
}

TEST_CASE("admission: the log says who is refused and why", "[unit]") {
  CHECK(refusal_line({555, 555, "python3"}, std::nullopt, "no") == "pid 555 (python3) is refused as worker: no");
  CHECK(refusal_line({556, 100, "a\nb"}, 1, "no") == "pid 556 (a?b) is refused as worker of local rank 1: no");
}
