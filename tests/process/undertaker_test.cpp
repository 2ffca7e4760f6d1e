#include "src/os/undertaker.hpp"

#include <csignal>
#include <pty.h>
#include <sys/wait.h>

#include "src/core/exit_status.hpp"
#include "src/os/process_info.hpp"
#include "src/os/spawn.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun;
using namespace cxxrun::test;

namespace {

constexpr int kWorkers = 4;
constexpr int kLinesPerWorker = 3;  // the worker and its two daemons

// The stand-in for cxxrun, running with its workers up.
struct Undertaken {
  TempDir directory;
  Fifo fifo{directory.file("fifo")};
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  LineReader output{std::move(out.reader)};
  LineReader errors{std::move(err.reader)};
  pid_t parent = 0;
  pid_t agent = 0;

  Undertaken() {
    os::SpawnRequest request;
    request.path = CXXRUN_UNDERTAKEN;
    request.argv = {"undertaken", CXXRUN_PROBE, fifo.path(), std::to_string(kWorkers)};
    request.out = out.writer.get();
    request.err = err.writer.get();
    auto const started = os::spawn(request);
    REQUIRE(started.ok());
    out.writer.reset();
    err.writer.reset();
    REQUIRE(std::sscanf(output.line().c_str(), "agent %d parent %d", &agent, &parent) == 2);
    REQUIRE(parent == started.pid);
    fifo.expect_lines(kWorkers * kLinesPerWorker);
  }

  [[nodiscard]] ExitStatus wait() const {
    int status = 0;
    REQUIRE(waitpid(parent, &status, 0) == parent);
    return ExitStatus::from_wait(status);
  }
};

double milliseconds_since(TimePoint then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

}  // namespace

TEST_CASE("undertaker: killing the agent kills every descendant, and the parent says so", "[process]") {
  Undertaken run;

  auto const then = Clock::now();
  REQUIRE(kill(run.agent, SIGKILL) == 0);
  run.fifo.wait_until_all_are_dead();

  CHECK(milliseconds_since(then) < 1000);
  CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
  CHECK(run.errors.line() == "cxxrun: the agent (pid " + std::to_string(run.agent) +
                                 ") was killed by signal 9 (SIGKILL); all workers on this node were stopped");
}

TEST_CASE("undertaker: killing the parent kills every descendant, and the agent ends", "[process]") {
  Undertaken run;

  auto const then = Clock::now();
  REQUIRE(kill(run.parent, SIGKILL) == 0);
  run.fifo.wait_until_all_are_dead();

  CHECK(milliseconds_since(then) < 1000);
  CHECK(run.wait() == ExitStatus::signalled(SIGKILL));
  CHECK(run.errors.line() == "cxxrun: the parent process of the agent (pid " + std::to_string(run.agent) +
                                 ") is gone; all workers on this node were stopped");
  CHECK(run.output.rest().empty());  // the agent has closed it: it is gone
}

TEST_CASE("undertaker: a signal reaches the agent once, and its exit code comes out", "[process]") {
  Undertaken run;

  kill(run.parent, SIGUSR1);
  CHECK(run.output.line() == "signal 10 process");
  kill(run.parent, SIGTERM);
  CHECK(run.output.line() == "signal 15 process");

  CHECK(run.wait() == ExitStatus::exited(42));
  run.fifo.wait_until_all_are_dead();  // what the agent had left
}

TEST_CASE("undertaker: a signal sent while the agent is starting is not lost", "[process]") {
  for (int i = 0; i < 20; ++i) {
    os::SpawnRequest request;
    request.path = CXXRUN_UNDERTAKEN;
    request.argv = {"undertaken", CXXRUN_PROBE, "-", "0"};
    auto const started = os::spawn(request);
    REQUIRE(started.ok());
    while (!os::read_stat(started.pid) || os::children_of(started.pid).empty()) {  // until it has forked
    }
    kill(started.pid, SIGTERM);
    int status = 0;
    REQUIRE(waitpid(started.pid, &status, 0) == started.pid);
    REQUIRE(ExitStatus::from_wait(status) == ExitStatus::exited(42));
  }
}

TEST_CASE("undertaker: Ctrl-C at a terminal reaches the agent once each time", "[process]") {
  int master = -1;
  pid_t const child = forkpty(&master, nullptr, nullptr, nullptr);
  if (child == 0) {
    execl(CXXRUN_UNDERTAKEN, "undertaken", CXXRUN_PROBE, "-", "0", nullptr);
    _exit(127);
  }
  LineReader terminal{os::UniqueFd(master)};
  int agent = 0;
  int parent = 0;
  REQUIRE(std::sscanf(terminal.line().c_str(), "agent %d parent %d", &agent, &parent) == 2);

  for (int i = 0; i < 2; ++i) {
    REQUIRE(write(master, "\x03", 1) == 1);
    CHECK(terminal.line() == "^Csignal 2 terminal\r");
  }
  kill(child, SIGTERM);
  CHECK(terminal.line() == "signal 15 process\r");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(ExitStatus::from_wait(status) == ExitStatus::exited(42));
}

TEST_CASE("undertaker: under nohup a hang-up means nothing", "[process]") {
  Pipe pipe = make_pipe();
  LineReader output(std::move(pipe.reader));
  os::SpawnRequest request;
  request.path = "/bin/sh";
  request.argv = {"sh", "-c", "trap '' HUP; exec " CXXRUN_UNDERTAKEN " " CXXRUN_PROBE " - 0"};
  request.out = pipe.writer.get();
  auto const started = os::spawn(request);
  pipe.writer.reset();
  static_cast<void>(output.line());

  kill(started.pid, SIGHUP);
  kill(started.pid, SIGTERM);

  CHECK(output.line() == "signal 15 process");
  int status = 0;
  waitpid(started.pid, &status, 0);
}
