// A worker that can be told what to do: probe COMMAND [argument]. Uses nothing of cxxrun.
//
//   exit N          exits with N
//   raise N         dies of signal N, or exits 99 when it survives
//   orphans N       leaves N processes behind that have just ended, and exits 0
//   facts           prints what it was given: descriptors, session, mask, dispositions, limits
//   wait FIFO       writes "ready" to FIFO and waits, holding it open
//   stubborn FIFO   the same, ignoring SIGTERM
//   catch FIFO      the same, writing "caught N" for USR1 and exiting 7 for TERM
//   save FIFO       starts a helper and says "ready"; for TERM says "asked PID", for USR1 then "saved" if the helper
//   still
//                   answers, else "lost", and exits 7, leaving the helper behind
//   daemons FIFO    starts daemons in sessions of their own, one of them ignoring SIGTERM, then as "wait"
//   leave FIFO      starts the daemons and exits 0
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sched.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers)
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

int fifo = -1;

void say(std::string const& text) {
  if (write(fifo, (text + "\n").c_str(), text.size() + 1) < 0) {
    _exit(98);
  }
}

[[noreturn]] void wait_for_ever() {
  for (;;) {
    pause();
  }
}

[[noreturn]] void wait_and_tell() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGTERM);
  // Handlers, so that the signals are "caught"; blocked, so that they are taken here.
  signal(SIGUSR1, [](int) {});
  signal(SIGTERM, [](int) {});
  sigprocmask(SIG_BLOCK, &set, nullptr);
  say("ready");
  for (;;) {
    int got = 0;
    sigwait(&set, &got);
    if (got == SIGTERM) {
      _exit(7);
    }
    say("caught " + std::to_string(got));
  }
}

// They share the memory of this process: copying it for each would take most of the test's time.
void leave_orphans(std::size_t count) {
  struct Stack {
    alignas(16) std::array<char, 8192> bytes;
    char* top() { return bytes.data() + bytes.size(); }
  };
  std::vector<Stack> stacks(2 * count);
  for (std::size_t i = 0; i < stacks.size(); i += 2) {
    auto const start_another = [](void* stack) {
      return clone([](void*) { return 0; }, static_cast<char*>(stack), CLONE_VM | SIGCHLD, nullptr) < 0 ? 1 : 0;
    };
    pid_t const parent = clone(start_another, stacks[i].top(), CLONE_VM | SIGCHLD, stacks[i + 1].top());
    waitpid(parent, nullptr, 0);
  }
}

int take(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int const each : signals) {
    sigaddset(&set, each);
  }
  int got = 0;
  sigwait(&set, &got);
  return got;
}

// The helper dies of SIGTERM.
[[noreturn]] void save_with_a_helper() {
  std::array<int, 2> ends{};
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data());
  if (fork() == 0) {
    char asked = 0;
    while (read(ends[1], &asked, 1) == 1 && write(ends[1], &asked, 1) == 1) {
    }
    _exit(0);
  }
  close(ends[1]);
  signal(SIGPIPE, SIG_IGN);
  for (int const each : {SIGUSR1, SIGTERM}) {
    signal(each, [](int) {});
  }
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  say("ready");
  take({SIGTERM});
  say("asked " + std::to_string(getpid()));
  if (take({SIGTERM, SIGUSR1}) == SIGTERM) {
    say("asked again");
  }
  char byte = 'x';
  bool const answers = write(ends[0], &byte, 1) == 1 && read(ends[0], &byte, 1) == 1;
  say(answers ? "saved" : "lost");
  _exit(7);
}

void start_daemon(bool stubborn) {
  if (fork() != 0) {
    return;
  }
  setsid();
  if (fork() != 0) {
    _exit(0);
  }
  setsid();
  if (stubborn) {
    signal(SIGTERM, SIG_IGN);
  }
  say("daemon");
  wait_for_ever();
}

void facts() {
  std::string fds;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    auto const target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.string().find("/proc/") != 0) {  // not the descriptor of this very listing
      fds += entry.path().filename().string() + " ";
    }
  }
  std::printf("fds %s\n", fds.c_str());
  std::printf("stdin %s\n", std::filesystem::read_symlink("/proc/self/fd/0").c_str());
  std::printf("leader %d %d\n", static_cast<int>(getsid(0) == getpid()), static_cast<int>(getpgrp() == getpid()));
  int death_signal = 0;
  prctl(PR_GET_PDEATHSIG, &death_signal);
  std::printf("pdeathsig %d\n", death_signal);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::printf("nofile %lu\n", static_cast<unsigned long>(limit.rlim_cur));  // NOLINT(google-runtime-int)
  std::printf("cwd %s\n", std::filesystem::current_path().c_str());
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk") || line.starts_with("SigIgn")) {
      std::printf("%s\n", line.c_str());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string const command = argc > 1 ? argv[1] : "";
  std::string const argument = argc > 2 ? argv[2] : "";
  if (command == "exit") {
    return std::atoi(argument.c_str());
  }
  if (command == "orphans") {
    leave_orphans(static_cast<std::size_t>(std::atoi(argument.c_str())));
    return 0;
  }
  if (command == "raise") {
    raise(std::atoi(argument.c_str()));
    return 99;
  }
  if (command == "facts") {
    facts();
    return 0;
  }
  fifo = open(argument.c_str(), O_WRONLY);
  if (fifo < 0) {
    return 97;
  }
  if (command == "save") {
    save_with_a_helper();
  }
  if (command == "catch") {
    wait_and_tell();
  }
  if (command == "stubborn") {
    signal(SIGTERM, SIG_IGN);
  }
  if (command == "daemons" || command == "leave") {
    start_daemon(false);
    start_daemon(true);
    if (command == "leave") {
      return 0;
    }
  }
  say("ready");
  wait_for_ever();
}
