#include "src/os/undertaker.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "src/core/exit_status.hpp"
#include "src/core/time.hpp"
#include "src/os/children.hpp"
#include "src/os/process_info.hpp"

namespace cxxrun::os {
namespace {

constexpr int kExitTemporary = 111;
constexpr int kExitParentGone = 128 + SIGKILL;
constexpr std::chrono::seconds kSweepLimit{5};

bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// What users and schedulers send. Faults, job control and SIGALRM keep their meaning.
sigset_t signals_to_pass() {
  sigset_t set = make_sigset({SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR});
  if (!ignored(SIGHUP)) {  // nohup: blocking an ignored signal would bring it back
    sigaddset(&set, SIGHUP);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    sigaddset(&set, signal);
  }
  return set;
}

// One write: the line stays whole beside the workers' output. No log is set up in the parent.
void say(std::string const& text) {
  std::string const line = "cxxrun: " + text + "\n";
  ssize_t const written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

std::string outcome(bool clean) {
  return clean ? "all workers on this node were stopped" : "some workers on this node could not be stopped within 5 s";
}

int finish(pid_t agent, ExitStatus const& status, std::vector<pid_t> const& spare) {
  bool const clean = sweep_descendants(Clock::now() + kSweepLimit, spare);
  if (status.kind == ExitStatus::Kind::signalled) {
    say("the agent (pid " + std::to_string(agent) + ") was killed by " + status.describe() + "; " + outcome(clean));
  }
  return status.shell_code();
}

std::optional<ExitStatus> reap_agent(pid_t agent) {
  while (auto const reaped = reap_any()) {
    if (reaped->pid == agent) {
      return reaped->status;
    }
  }
  return std::nullopt;
}

int parent_main(pid_t agent, sigset_t signals, std::vector<pid_t> const& spare) {
  sigaddset(&signals, SIGCHLD);
  for (;;) {
    siginfo_t info{};
    int const signal = sigwaitinfo(&signals, &info);
    if (signal == SIGCHLD) {
      if (auto const status = reap_agent(agent)) {
        return finish(agent, *status, spare);
      }
    } else if (signal > 0 && passes_on({signal, info.si_pid, info.si_code})) {
      kill(agent, signal);
    }
  }
}

int agent_side(std::function<int(AgentSide const&)> const& agent_main, AgentSide side) {
  side.parent_watch.reset(static_cast<int>(syscall(SYS_pidfd_open, side.parent, 0)));
  if (!side.parent_watch && errno != ESRCH) {
    say(std::string("cannot watch the parent process (Linux 5.3 or newer is needed): ") + std::strerror(errno));
    return kExitTemporary;
  }
  if (getppid() != side.parent) {  // it died before we could watch it: the pidfd may be somebody else's
    return kExitParentGone;
  }
  become_subreaper();
  return agent_main(side);
}

}  // namespace

bool passes_on(SignalInfo const& signal) {
  return signal.code != SI_KERNEL || (signal.signal != SIGINT && signal.signal != SIGQUIT);
}

void ensure_standard_descriptors() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);  // NOLINT(android-cloexec-open): 0, 1 and 2 are meant to be inherited
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) {
    close(fd);
  }
}

int run_under_parent(std::function<int(AgentSide const&)> const& agent_main) {
  ensure_standard_descriptors();
  AgentSide side;
  side.signals = signals_to_pass();
  side.interrupt_ignored = ignored(SIGINT);
  side.parent = getpid();
  block_signals(side.signals);
  block_signals(make_sigset({SIGCHLD}));
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  std::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): inherited as ignored, exit statuses would be lost
  become_subreaper();
  // Children of a shell that executed us in its place are not ours to kill.
  std::vector<pid_t> const spare = children_of(getpid());
  pid_t const agent = fork();
  if (agent < 0) {
    say(std::string("cannot start the agent process: ") + std::strerror(errno));
    return kExitTemporary;
  }
  if (agent == 0) {
    return agent_side(agent_main, std::move(side));
  }
  return parent_main(agent, side.signals, spare);
}

void bury_and_exit() {
  bool const clean = sweep_descendants(Clock::now() + kSweepLimit);
  say("the parent process of the agent (pid " + std::to_string(getpid()) + ") is gone; " + outcome(clean));
  _exit(kExitParentGone);
}

}  // namespace cxxrun::os
