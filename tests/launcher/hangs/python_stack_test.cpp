#include "launcher/hangs/python_stack.hpp"

#include <csignal>
#include <cstdint>
#include <linux/sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kSignal = 47;

[[noreturn]] void idle() {
  for (;;) {
    pause();
  }
}

/// A stopped process that looks like a Python with cxxrun.install(), but never answers.
pid_t start_mute() {
  pid_t const made = fork();
  if (made == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static_cast<void>(memfd_create(("cxxrun-stacks-" + std::to_string(kSignal)).c_str(), 0));
    std::signal(kSignal, [](int) {});
    raise(SIGSTOP);
    idle();
  }
  int status = 0;
  REQUIRE(waitpid(made, &status, WUNTRACED) == made);
  REQUIRE(WIFSTOPPED(status));
  return made;
}

/// Another process with the same pid; 0: choosing a pid is not permitted here.
pid_t start_as(pid_t number) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uint64_t>(&number);
  arguments.set_tid_size = 1;
  auto const made = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
  if (made == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    idle();
  }
  return made > 0 ? made : 0;
}

}  // namespace

TEST_CASE("python_stack: another process that has got the number of one that has ended is not stopped", "[process]") {
  boost::asio::io_context io;
  pid_t const mute = start_mute();
  bool asked = false;
  launcher::ask_python(io, mute, [&](launcher::PythonAnswer const& answer) {
    asked = true;
    CHECK(answer.written.empty());
    CHECK(answer.was_stopped);
  });
  kill(mute, SIGKILL);
  REQUIRE(waitpid(mute, nullptr, 0) == mute);
  pid_t const other = start_as(mute);
  if (other != mute) {
    WARN("skipped: no process can be given a number here");
    io.run();
    return;
  }
  io.run();
  CHECK(asked);
  int status = 0;
  kill(other, SIGRTMAX);  // ends it, unless SIGSTOP, which has a lower number, came before
  REQUIRE(waitpid(other, &status, WUNTRACED) == other);
  CHECK(WIFSIGNALED(status));
  kill(other, SIGKILL);
}
