// A worker that can be told what to do: probe COMMAND [argument]. Uses nothing of cxxrun.
//
//   exit N          exits with N
//   raise N         dies of signal N, or exits 99 when it survives
//   facts           prints what it was given: descriptors, session, mask, dispositions, limits
//   wait FIFO       writes "ready" to FIFO and waits, holding it open
//   stubborn FIFO   the same, ignoring SIGTERM
//   catch FIFO      the same, writing "caught N" for USR1 and exiting 7 for TERM
//   daemons FIFO    starts daemons in sessions of their own, one of them ignoring SIGTERM, then as "wait"
//   leave FIFO      starts the daemons and exits 0
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>  // NOLINT(modernize-deprecated-headers)
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

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
