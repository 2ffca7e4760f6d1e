#include "src/base/os/spawn.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/core/exit_status.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/system.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun;
using namespace cxxrun::test;

namespace {

os::SpawnRequest probe(std::vector<std::string> arguments) {
  os::SpawnRequest request;
  request.path = CXXRUN_PROBE;
  request.argv = {"probe"};
  request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
  return request;
}

ExitStatus wait_for(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return ExitStatus::from_wait(status);
}

std::string output_of(os::SpawnRequest request) {
  Pipe pipe = make_pipe();
  LineReader reader(std::move(pipe.read));
  request.out = pipe.write.get();
  auto const started = os::spawn(request);
  REQUIRE(started.ok());
  pipe.write.reset();
  std::string text = reader.rest();
  CHECK(wait_for(started.pid) == ExitStatus::exited(0));
  return text;
}

bool has_line(std::string const& text, std::string const& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

void write_file(std::string const& path, std::string const& text, mode_t mode) {
  std::ofstream(path) << text;
  REQUIRE(chmod(path.c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("spawn: every exit code from 0 to 255 comes out as it is", "[process]") {
  for (int code = 0; code < 256; ++code) {
    auto const started = os::spawn(probe({"exit", std::to_string(code)}));
    REQUIRE(started.ok());
    REQUIRE(wait_for(started.pid) == ExitStatus::exited(code));
  }
}

TEST_CASE("spawn: every deadly signal comes out by number", "[process]") {
  rlimit const no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    bool const harmless = signal == SIGCHLD || signal == SIGCONT || signal == SIGURG || signal == SIGWINCH;
    bool const stops = signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    if (stops || (signal >= 32 && signal < SIGRTMIN)) {
      continue;
    }
    auto const started = os::spawn(probe({"raise", std::to_string(signal)}));
    REQUIRE(started.ok());
    auto const status = wait_for(started.pid);
    REQUIRE(status == (harmless ? ExitStatus::exited(99) : ExitStatus::signalled(signal)));
  }
}

TEST_CASE("spawn: a worker holds descriptors 0, 1 and 2 and no other", "[process]") {
  os::UniqueFd const leak(open("/dev/null", O_RDONLY));  // NOLINT(android-cloexec-open): a library's, say
  auto const text = output_of(probe({"facts"}));
  CHECK(has_line(text, "fds 0 1 2 "));
  CHECK(has_line(text, "stdin /dev/null"));
}

TEST_CASE("spawn: where memory runs out a worker is killed before the launcher", "[process]") {
  auto const own = os::read_text("/proc/self/oom_score_adj");
  os::SpawnRequest request = probe({});
  request.path = "/bin/cat";
  request.argv = {"cat", "/proc/self/oom_score_adj"};
  CHECK(output_of(request) == std::to_string(std::min(1000, std::stoi(own) + 100)) + "\n");
  CHECK(os::read_text("/proc/self/oom_score_adj") == own);
}

TEST_CASE("spawn: mask and dispositions are the defaults whatever the launcher's are", "[process]") {
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  os::block_signals(os::make_sigset({SIGUSR1, SIGCHLD, SIGTERM}));

  auto const text = output_of(probe({"facts"}));

  std::signal(SIGPIPE, before);
  std::signal(SIGTERM, SIG_DFL);
  CHECK(has_line(text, "SigBlk:\t0000000000000000"));
  CHECK(has_line(text, "SigIgn:\t0000000000000000"));
}

TEST_CASE("spawn: a worker leads its session and group and dies with the launcher", "[process]") {
  auto const text = output_of(probe({"facts"}));
  CHECK(has_line(text, "leader 1 1"));
  CHECK(has_line(text, "pdeathsig 9"));
}

TEST_CASE("spawn: directory, environment and descriptor limit are what was asked for", "[process]") {
  TempDir const directory;
  auto request = probe({"facts"});
  request.directory = directory.path();
  request.nofile_soft = 77;
  auto const text = output_of(request);
  CHECK(has_line(text, "cwd " + directory.path()));
  CHECK(has_line(text, "nofile 77"));

  os::SpawnRequest env;
  env.path = "/usr/bin/env";
  env.argv = {"env"};
  env.environment = {"A=1", "B=two words"};
  CHECK(output_of(env) == "A=1\nB=two words\n");
}

TEST_CASE("spawn: what cannot be executed is an errno, and leaves no process", "[process]") {
  TempDir const directory;
  write_file(directory.file("text"), "echo no interpreter\n", 0755);
  write_file(directory.file("lost"), "#!/no/such/interpreter\n", 0755);
  write_file(directory.file("plain"), "#!/bin/sh\n", 0644);
  auto error_of = [](std::string const& path) {
    os::SpawnRequest request;
    request.path = path;
    request.argv = {path};
    return os::spawn(request).error;
  };

  CHECK(error_of("/no/such/program") == ENOENT);
  CHECK(error_of(directory.file("lost")) == ENOENT);
  CHECK(error_of(directory.file("text")) == ENOEXEC);
  CHECK(error_of(directory.file("plain")) == EACCES);
  CHECK(error_of(directory.path()) == EACCES);
  CHECK_FALSE(os::has_children());
}

TEST_CASE("spawn: a missing working directory is told from a missing program", "[process]") {
  auto request = probe({"exit", "0"});
  request.directory = "/no/such/directory";
  auto const failed = os::spawn(request);
  CHECK(failed.error == ENOENT);
  CHECK(failed.stage == os::SpawnStage::directory);
}

TEST_CASE("spawn: programs are searched in the worker's own PATH", "[process]") {
  TempDir const directory;
  write_file(directory.file("tool"), "#!/bin/sh\n", 0755);
  write_file(directory.file("data"), "", 0644);
  std::vector<std::string> const environment{"PATH=/no/such:" + directory.path()};

  CHECK(os::find_program("tool", environment).path == directory.file("tool"));
  CHECK(os::find_program("data", environment).error == EACCES);
  CHECK(os::find_program("data", environment).path == directory.file("data"));
  CHECK(os::find_program("nothing", environment).error == ENOENT);
  CHECK(os::find_program("", environment).error == ENOENT);
  CHECK(os::find_program("sh", {}).error == 0);
  CHECK(os::find_program(directory.path(), environment).error == EACCES);
}

TEST_CASE("children: a sweep kills daemons in sessions of their own, and spares what it is told to", "[process]") {
  TempDir const directory;
  Fifo fifo(directory.file("fifo"));
  os::become_subreaper();
  auto const spared = os::spawn(probe({"wait", fifo.path()}));
  CHECK(fifo.line() == "ready");
  REQUIRE(os::spawn(probe({"daemons", fifo.path()})).ok());
  fifo.expect_lines(3);

  CHECK(os::sweep_descendants(Clock::now() + kGuard, {spared.pid}));

  CHECK(kill(spared.pid, 0) == 0);
  CHECK(os::sweep_descendants(Clock::now() + kGuard));
  CHECK_FALSE(os::has_children());
  fifo.wait_until_all_are_dead();
}

TEST_CASE("spawn: a child runs on the CPUs it is given, and one that cannot is a failed start", "[process]") {
  auto const allowed = os::allowed_cpus();
  REQUIRE_FALSE(allowed.empty());
  os::SpawnRequest request;
  request.path = "/bin/grep";
  request.argv = {"grep", "Cpus_allowed_list", "/proc/self/status"};
  request.cpus = {allowed.back()};
  CHECK(output_of(request) == "Cpus_allowed_list:\t" + std::to_string(allowed.back()) + "\n");

  request.cpus = {60'000};
  auto const started = os::spawn(request);
  CHECK(started.error == EINVAL);
  CHECK(started.stage == os::SpawnStage::cpus);
  CHECK(os::explain_failed_start("p", started.stage, started.error) ==
        "cannot start 'p': cannot bind it to its CPUs: Invalid argument; --cpu-bind none leaves them alone");
  CHECK(os::explain_failed_start("p", os::SpawnStage::descriptors, EPERM) ==
        "cannot start 'p': cannot open /dev/null for it: Operation not permitted");
}

namespace {

constexpr int kMany = 600;  // more than one listing of /proc/self/fd holds

/// Whether `so` holds for every descriptor from 3 to kMany, in a child that has opened all of them and calls `act`.
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
