#include "launcher/workers/supervisor.hpp"

#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "src/base/os/children.hpp"
#include "src/base/os/process_info.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/supervisor_bench.hpp"

using namespace cxxrun;
using namespace cxxrun::launcher;
using namespace cxxrun::test;
using namespace std::chrono_literals;

namespace {

using Bench = SupervisorBench;

// Waits until the worker has ended, without reaping it.
void wait_for_death(pid_t pid) {
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
}

pid_t only_child() {
  auto const children = os::children_of(getpid());
  REQUIRE(children.size() == 1);
  return children.front();
}

// A debugger that is not our child, or it would count as an escaped descendant. Ends with this object.
class Tracer {
 public:
  Tracer() {
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    pid_t const middle = fork();
    if (middle == 0) {
      if (fork() == 0) {
        trace();
      }
      _exit(0);
    }
    waitpid(middle, nullptr, 0);
    request_.read.reset();
    answer_.write.reset();
  }
  // False when the system does not allow it.
  bool seize(pid_t pid) {
    bool done = false;
    return write(request_.write.get(), &pid, sizeof pid) == sizeof pid &&
           read(answer_.read.get(), &done, sizeof done) == sizeof done && done;
  }

 private:
  [[noreturn]] void trace() {
    request_.write.reset();
    pid_t pid = 0;
    while (read(request_.read.get(), &pid, sizeof pid) == sizeof pid) {
      bool const done = ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
      if (write(answer_.write.get(), &done, sizeof done) < 0) {
        break;
      }
    }
    _exit(0);
  }
  Pipe request_ = make_pipe();
  Pipe answer_ = make_pipe();
};

std::string text_of(std::string const& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("supervisor: workers that all succeed end the generation", "[process]") {
  Bench bench;
  bench.start({bench.shell("exit 0"), bench.shell("exit 0")}, 7);

  auto const& end = bench.run_to_the_end();

  CHECK(end.generation == 7);
  CHECK(bench.exited.size() == 2);
  REQUIRE(end.exits.size() == 2);
  CHECK(end.exits[1].rank == 11);
  CHECK(end.exits[1].status.ok());
  CHECK(end.exits[1].pid > 0);
  CHECK(end.unkillable.empty());
}

TEST_CASE("supervisor: an agent without a key proves no connection of its workers", "[process]") {
  Bench bench;
  auto const verdict = bench.prove(1, 0, {});
  REQUIRE_FALSE(verdict);
  CHECK(verdict.error().context == "this agent proves nothing (--auth none)");
}

TEST_CASE("supervisor: exit codes and signals are told apart", "[process]") {
  Bench bench;
  bench.start({bench.shell("exit 9"), bench.shell("kill -9 $$"), bench.shell("exit 127")});

  auto const& end = bench.run_to_the_end();

  CHECK(end.exits[0].status == ExitStatus::exited(9));
  CHECK(end.exits[1].status == ExitStatus::signalled(SIGKILL));
  CHECK(end.exits[2].status == ExitStatus::exited(127));
  CHECK_FALSE(end.exits[1].ours);
}

TEST_CASE("supervisor: a stop ends the siblings of a failed worker, and the blame stays with it", "[process]") {
  Bench bench;
  bench.start({bench.probe("wait"), bench.probe("wait"), bench.probe("wait")});
  bench.fifo.expect_lines(3);
  bench.supervisor->stop(order(20s));
  auto const& end = bench.run_to_the_end();
  CHECK(end.exits[2].ours);

  bench.start({bench.probe("wait"), bench.shell("exit 3")}, 2);
  bench.run_until_exits(1);
  bench.supervisor->stop(order(20s));
  auto const& second = bench.run_to_the_end();

  CHECK(second.exits[0].status == ExitStatus::signalled(SIGTERM));
  CHECK(second.exits[0].ours);
  CHECK(second.exits[1].status == ExitStatus::exited(3));
  CHECK_FALSE(second.exits[1].ours);
}

TEST_CASE("supervisor: who had died before the order did not die of it", "[process]") {
  Bench bench;
  bench.start({bench.shell("exit 3")});
  wait_for_death(only_child());

  bench.supervisor->stop(order(20s));

  auto const& end = bench.run_to_the_end();
  CHECK(end.exits[0].status == ExitStatus::exited(3));
  CHECK_FALSE(end.exits[0].ours);
}

TEST_CASE("supervisor: a worker that ignores SIGTERM is killed at the deadline", "[process]") {
  Bench bench;
  bench.start({bench.probe("stubborn"), bench.probe("catch")});
  bench.fifo.expect_lines(2);

  auto const then = Clock::now();
  bench.supervisor->stop(order(200ms));
  auto const& end = bench.run_to_the_end();

  CHECK(Clock::now() - then >= 200ms);
  CHECK(end.exits[0].status == ExitStatus::signalled(SIGKILL));
  CHECK(end.exits[0].ours);
  CHECK(end.exits[1].status == ExitStatus::exited(7));
  CHECK(end.exits[1].ours);
}

TEST_CASE("supervisor: a second order with no grace kills at once", "[process]") {
  Bench bench;
  bench.start({bench.probe("stubborn")});
  bench.fifo.expect_lines(1);

  bench.supervisor->stop(order(1h));
  bench.supervisor->stop(order(0ms));

  CHECK(bench.run_to_the_end().exits[0].status == ExitStatus::signalled(SIGKILL));
}

TEST_CASE("supervisor: a program that cannot be started is no exit code", "[process]") {
  Bench bench;
  auto broken = bench.worker({"/no/such/program"});
  bench.start({broken, bench.probe("wait")});
  bench.fifo.expect_lines(1);
  bench.run_until_exits(1);
  CHECK(bench.exited[0].status == ExitStatus::not_started(ENOENT));

  bench.supervisor->stop(order(20s));
  auto const& end = bench.run_to_the_end();
  CHECK(
      end.exits[0].stderr_tail.starts_with("cannot start '/no/such/program': No such file or directory; is the path "));
  CHECK(end.exits[0].cause.starts_with("'/no/such/program' (working directory /"));
  CHECK_FALSE(end.exits[0].ours);

  bench.start({broken, broken}, 2);
  CHECK(bench.run_to_the_end().exits.size() == 2);
}

TEST_CASE("supervisor: the end brings the last lines of stderr and this run's error file", "[process]") {
  Bench bench;
  std::string const error_file = bench.directory.file("error.json");
  std::ofstream(error_file) << "stale";
  auto writes =
      bench.shell("echo late >&2; printf '{\"message\": \"ValueError: fresh\"}' > " + error_file + "; exit 1");
  writes.error_file = error_file;
  auto silent = bench.shell("exit 1");
  silent.error_file = bench.directory.file("none.json");
  bench.start({writes, silent});

  auto const& end = bench.run_to_the_end();

  CHECK(end.exits[0].stderr_tail.find("late") == 0);
  CHECK(end.exits[0].error_file == "ValueError: fresh");
  CHECK(end.exits[1].stderr_tail.empty());
  CHECK(end.exits[1].error_file.empty());
}

TEST_CASE("supervisor: redirected streams are complete in their files when the end is reported", "[process]") {
  Bench bench;
  auto spec = bench.shell("echo out; echo err >&2");
  spec.out.file = bench.directory.file("stdout.log");
  spec.err.file = bench.directory.file("stderr.log");
  bench.start({spec});
  bench.run_to_the_end();
  CHECK(text_of(spec.out.file) == "out\n");
  CHECK(text_of(spec.err.file) == "err\n");

  spec.out.file = bench.directory.file("no/such/directory");
  bench.start({spec}, 2);
  CHECK(bench.run_to_the_end().exits[0].status.ok());
}

TEST_CASE("supervisor: a forwarded signal reaches only those who catch it", "[process]") {
  Bench bench;
  auto wrapped = bench.shell(std::string(CXXRUN_PROBE) + " catch " + bench.fifo.path() + "; exit 5");
  bench.start({bench.probe("catch"), bench.probe("wait"), wrapped});
  bench.fifo.expect_lines(3);

  bench.supervisor->forward(SIGUSR1);

  CHECK(bench.fifo.line() == "caught 10");
  CHECK(bench.fifo.line() == "caught 10");
  bench.supervisor->stop(order(20s));
  CHECK(bench.run_to_the_end().exits[1].status == ExitStatus::signalled(SIGTERM));
}

TEST_CASE("supervisor: a stopped worker still gets to act on the stop", "[process]") {
  Bench bench;
  bench.start({bench.probe("catch")});
  bench.fifo.expect_lines(1);
  pid_t const pid = only_child();
  siginfo_t info{};
  kill(pid, SIGSTOP);
  REQUIRE(waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT) == 0);

  bench.supervisor->stop(order(1h));

  CHECK(bench.run_to_the_end().exits[0].status == ExitStatus::exited(7));
}

TEST_CASE("supervisor: a dead worker that a debugger holds is named and does not block", "[process]") {
  Tracer tracer;
  Bench bench;
  bench.start({bench.probe("wait"), bench.shell("exit 0")});
  bench.fifo.expect_lines(1);
  bench.run_until_exits(1);  // the shell's: a short kill timeout may be over before it has died
  pid_t const held = only_child();
  if (!tracer.seize(held)) {
    WARN("ptrace is not permitted here");
    return;
  }

  bench.supervisor->stop({SIGTERM, true, 0ms, 100ms});
  auto const end = bench.run_to_the_end();

  REQUIRE(end.unkillable.size() == 1);
  CHECK(end.unkillable[0].find("pid " + std::to_string(held) + " (probe), state Z") == 0);
  CHECK(end.exits[0].ours);
  bench.start({bench.shell("exit 4")}, 2);
  CHECK(bench.run_to_the_end().exits[0].status == ExitStatus::exited(4));
}

TEST_CASE("supervisor: running out of descriptors fails a start, never the launcher", "[process]") {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit const few{200, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  for (std::size_t left = 0; left <= 8; ++left) {
    Bench bench;
    auto spec = bench.shell("exit 6");
    spec.out.file = bench.directory.file("stdout.log");
    spec.inherit_stdin = true;
    std::vector<os::UniqueFd> hoard;
    do {
      hoard.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (hoard.back());
    hoard.resize(hoard.size() - 1 - left);
    bench.start({spec});
    hoard.clear();

    INFO(left << " descriptors left");
    auto const status = bench.run_to_the_end().exits[0].status;
    CHECK((status == ExitStatus::exited(6) || status == ExitStatus::not_started(EMFILE)));
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("supervisor: its destruction leaves nobody", "[process]") {
  Bench bench;
  bench.start({bench.probe("daemons"), bench.probe("stubborn")});
  bench.fifo.expect_lines(4);

  bench.supervisor.reset();

  CHECK_FALSE(os::has_children());
  bench.fifo.wait_until_all_are_dead();
}

TEST_CASE("supervisor: a start while a generation runs is refused", "[process]") {
  Bench bench;
  bench.start({bench.probe("wait")});
  bench.start({bench.shell("exit 0")}, 2);
  bench.supervisor->stop(order(20s));

  CHECK(bench.run_to_the_end().generation == 1);
}
