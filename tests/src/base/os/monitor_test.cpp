#include "src/base/os/monitor.hpp"

#include <cerrno>
#include <csignal>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "src/base/core/exit_status.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun;
using namespace cxxrun::test;

namespace {

constexpr int kWorkers = 4;
constexpr int kLinesPerWorker = 3;  // the worker and its two daemons

// The stand-in for cxxrun, running with its workers up.
struct Monitored {
  TempDir directory;
  Fifo fifo{directory.file("fifo")};
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  LineReader output{std::move(out.read)};
  LineReader errors{std::move(err.read)};
  pid_t parent = 0;
  pid_t agent = 0;
  int standby = 0;

  explicit Monitored(std::vector<std::string> const& more = {}) {
    os::SpawnRequest request;
    request.path = CXXRUN_MONITORED;
    request.argv = {"monitored", CXXRUN_PROBE, fifo.path(), std::to_string(kWorkers)};
    request.argv.insert(request.argv.end(), more.begin(), more.end());
    request.out = out.write.get();
    request.err = err.write.get();
    auto const started = os::spawn(request);
    REQUIRE(started.ok());
    out.write.reset();
    err.write.reset();
    REQUIRE(std::sscanf(output.line().c_str(), "agent %d parent %d standby %d", &agent, &parent, &standby) == 3);
    REQUIRE(parent == started.pid);
    fifo.expect_lines(kWorkers * kLinesPerWorker);
  }

  [[nodiscard]] ExitStatus wait() const {
    int status = 0;
    REQUIRE(waitpid(parent, &status, 0) == parent);
    return ExitStatus::from_wait(status);
  }
};

// A recipient of death notices, listening on the loopback.
struct RecipientSocket {
  os::UniqueFd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::string port;

  RecipientSocket() {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
    REQUIRE(listen(fd.get(), 8) == 0);
    port = std::to_string(os::port_of(fd.get()));
  }

  // The bytes of the next caller until it closes.
  [[nodiscard]] std::string hears() const {
    pollfd watched{fd.get(), POLLIN, 0};
    if (poll(&watched, 1, 20'000) != 1) {
      return "nobody has called";
    }
    LineReader caller{os::UniqueFd(accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC))};
    return caller.rest();
  }

  [[nodiscard]] bool was_called() const {
    pollfd watched{fd.get(), POLLIN, 0};
    return poll(&watched, 1, 0) == 1;
  }
};

int error_of_call_to(int port) {
  os::UniqueFd const fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return connect(fd.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 ? 0 : errno;
}

double milliseconds_since(TimePoint then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

}  // namespace

TEST_CASE("monitor: killing the agent kills every descendant, and the parent says so", "[process]") {
  Monitored run;

  auto const then = Clock::now();
  REQUIRE(kill(run.agent, SIGKILL) == 0);
  run.fifo.wait_until_all_are_dead();

  CHECK(milliseconds_since(then) < 1000);
  CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
  CHECK(run.errors.line() == "cxxrun: the agent (pid " + std::to_string(run.agent) +
                                 ") was killed by signal 9 (SIGKILL); all workers on this node were stopped");
}

TEST_CASE("monitor: killing the parent kills every descendant, and the agent ends", "[process]") {
  Monitored run;

  auto const then = Clock::now();
  REQUIRE(kill(run.parent, SIGKILL) == 0);
  run.fifo.wait_until_all_are_dead();

  CHECK(milliseconds_since(then) < 1000);
  CHECK(run.wait() == ExitStatus::signalled(SIGKILL));
  CHECK(run.errors.line() == "cxxrun: the parent process of the agent (pid " + std::to_string(run.agent) +
                                 ") is gone; all workers on this node were stopped");
  CHECK(run.output.rest().empty());  // end of file: the agent is gone
}

namespace {

/// The kept port of a Monitored with `hold`.
std::uint16_t held_port(Monitored& run) {
  int port = 0;
  REQUIRE(std::sscanf(run.output.line().c_str(), "held %d", &port) == 1);
  return static_cast<std::uint16_t>(port);
}

}  // namespace

TEST_CASE(
    "monitor: the port that the agent has told of stays taken, whichever of the two is killed, until a signal comes",
    "[process]") {
  for (bool const parent : {false, true}) {
    CAPTURE(parent);
    Monitored run({"hold", "600000"});
    auto const port = held_port(run);
    CHECK_FALSE(os::listen_at({port, false}));
    REQUIRE(kill(parent ? run.parent : run.agent, SIGKILL) == 0);

    CHECK(run.errors.line().find("all workers on this node were stopped") != std::string::npos);
    CHECK(run.errors.line().find("the port of the store is held for 600 s") != std::string::npos);
    CHECK_FALSE(os::listen_at({port, false}));
    CHECK(error_of_call_to(run.standby) == ECONNREFUSED);

    REQUIRE(kill(parent ? run.agent : run.parent, SIGTERM) == 0);
    CHECK(run.errors.rest().empty());  // both have ended
    CHECK(run.wait() == (parent ? ExitStatus::signalled(SIGKILL) : ExitStatus::exited(128 + SIGKILL)));
    CHECK(os::listen_at({port, false}));
  }
}

TEST_CASE("monitor: a port is held for as long as the agent has said, and not at all once it has taken it back",
          "[process]") {
  for (bool const release : {false, true}) {
    CAPTURE(release);
    auto const then = Clock::now();
    Monitored run(release ? std::vector<std::string>{"hold", "600000", "release"}
                          : std::vector<std::string>{"hold", "200"});
    auto const port = held_port(run);
    kill(run.agent, SIGKILL);
    CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
    CHECK((release || milliseconds_since(then) >= 200));
    CHECK(os::listen_at({port, false}));
  }
}

TEST_CASE("monitor: a signal reaches the agent once, and its exit code comes out", "[process]") {
  Monitored run;

  kill(run.parent, SIGUSR1);
  CHECK(run.output.line() == "signal 10 process");
  kill(run.parent, SIGTERM);
  CHECK(run.output.line() == "signal 15 process");

  CHECK(run.wait() == ExitStatus::exited(42));
  run.fifo.wait_until_all_are_dead();  // the processes that the agent had left
}

TEST_CASE("monitor: a signal sent while the agent is starting is not lost", "[process]") {
  for (int i = 0; i < 20; ++i) {
    os::SpawnRequest request;
    request.path = CXXRUN_MONITORED;
    request.argv = {"monitored", CXXRUN_PROBE, "-", "0"};
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

TEST_CASE("monitor: Ctrl-C at a terminal reaches the agent once each time", "[process]") {
  int master = -1;
  pid_t const child = forkpty(&master, nullptr, nullptr, nullptr);
  if (child == 0) {
    execl(CXXRUN_MONITORED, "monitored", CXXRUN_PROBE, "-", "0", nullptr);
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

TEST_CASE("shared page: who sent a signal comes over whole, whatever its length", "[process]") {
  auto const page = os::SharedPage::make();
  REQUIRE(page);
  CHECK(page->sender() == os::Sender{});
  for (char const* const name : {"", "kill", "eight888", "fifteen15151515"}) {
    os::Sender const sender{4'194'303, 4'294'967'294U, name};
    page->note_sender(sender);
    CHECK(page->sender() == sender);
  }
  page->note_sender({1, 0, "kill"});  // shorter than the name before
  CHECK(page->sender() == os::Sender{1, 0, "kill"});
}

TEST_CASE("monitor: under nohup a hang-up means nothing", "[process]") {
  Pipe pipe = make_pipe();
  LineReader output(std::move(pipe.read));
  os::SpawnRequest request;
  request.path = "/bin/sh";
  request.argv = {"sh", "-c", "trap '' HUP; exec " CXXRUN_MONITORED " " CXXRUN_PROBE " - 0"};
  request.out = pipe.write.get();
  auto const started = os::spawn(request);
  pipe.write.reset();
  static_cast<void>(output.line());

  kill(started.pid, SIGHUP);
  kill(started.pid, SIGTERM);

  CHECK(output.line() == "signal 15 process");
  int status = 0;
  waitpid(started.pid, &status, 0);
}

namespace {

/// False: the process has ended.
bool wait_until_stopped(pid_t pid) {
  for (;;) {
    auto const stat = os::read_stat(pid);
    if (!stat || stat->state == 'Z' || stat->state == 'X') {
      return false;
    }
    if (stat->state == 'T') {
      return true;
    }
    usleep(1'000);
  }
}

}  // namespace

TEST_CASE("monitor: workers of an agent that is stopped are frozen at the end of their lease, then killed",
          "[process]") {
  Monitored run({"1000"});
  REQUIRE(kill(run.agent, SIGSTOP) == 0);
  auto const workers = os::children_of(run.agent);
  REQUIRE_FALSE(workers.empty());
  for (auto const worker : workers) {
    CHECK(wait_until_stopped(worker));
  }

  CHECK(run.errors.line() == "cxxrun: the lease of this node has run out, and the agent (pid " +
                                 std::to_string(run.agent) + ") has had no new one: its frozen workers are killed");
  run.fifo.wait_until_all_are_dead();

  CHECK(os::read_stat(run.agent).has_value());  // the parent must not kill it
  kill(run.agent, SIGCONT);
  kill(run.parent, SIGTERM);
  CHECK(run.wait() == ExitStatus::exited(42));
}

TEST_CASE("monitor: a parent that was suspended with everything else freezes the workers first", "[process]") {
  Monitored run({"1500"});
  auto const worker = os::children_of(run.agent).front();

  REQUIRE(kill(run.agent, SIGSTOP) == 0);
  REQUIRE(kill(run.parent, SIGSTOP) == 0);
  auto const until = Clock::now() + Millis{1800};
  while (Clock::now() < until) {
    usleep(10'000);
  }
  REQUIRE(kill(run.parent, SIGCONT) == 0);
  CHECK(wait_until_stopped(worker));

  CHECK(run.errors.line().find("its frozen workers are killed") != std::string::npos);  // no new lease came
  run.fifo.wait_until_all_are_dead();
  kill(run.agent, SIGKILL);
  CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
}

TEST_CASE("monitor: the death notice of a killed agent reaches every recipient that is there", "[process]") {
  RecipientSocket first;
  RecipientSocket second;
  RecipientSocket nobody;
  nobody.fd.reset();
  Monitored run({"0", "farewell", first.port, nobody.port, second.port});
  CHECK(error_of_call_to(run.standby) == 0);

  REQUIRE(kill(run.agent, SIGKILL) == 0);

  CHECK(first.hears() == "farewell");
  CHECK(error_of_call_to(run.standby) == ECONNREFUSED);
  CHECK(second.hears() == "farewell");
  CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
}

TEST_CASE("monitor: an agent whose parent was killed sends the death notice itself", "[process]") {
  RecipientSocket recipient;
  Monitored run({"0", "farewell", recipient.port});

  REQUIRE(kill(run.parent, SIGKILL) == 0);

  CHECK(recipient.hears() == "farewell");
  run.fifo.wait_until_all_are_dead();
}

TEST_CASE("monitor: a recipient that does not answer holds nobody up for longer than a second", "[process]") {
  RecipientSocket silent;  // the kernel accepts the call, but no process reads or closes
  Monitored run({"0", "farewell", silent.port});

  auto const then = Clock::now();
  REQUIRE(kill(run.agent, SIGKILL) == 0);

  CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
  CHECK(milliseconds_since(then) < 5000);
}

TEST_CASE("monitor: no death notice while a descendant lives", "[process]") {
  RecipientSocket recipient;
  Monitored run({"0", "farewell", recipient.port});
  REQUIRE(kill(run.parent, SIGSTOP) == 0);

  REQUIRE(kill(run.agent, SIGKILL) == 0);

  CHECK(!os::children_of(run.parent).empty());
  CHECK(!recipient.was_called());
  CHECK(error_of_call_to(run.standby) == 0);  // the parent has its copy
  REQUIRE(kill(run.parent, SIGCONT) == 0);
  CHECK(recipient.hears() == "farewell");
  run.fifo.wait_until_all_are_dead();
  CHECK(run.wait() == ExitStatus::exited(128 + SIGKILL));
}
