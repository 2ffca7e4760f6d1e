#include "src/base/os/children.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "src/base/os/fd_io.hpp"
#include "src/base/os/held_process.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/signals.hpp"

namespace cxxrun::os {
namespace {

constexpr timespec kSweepPause{0, 300'000};
// A listing taken while processes come and go may miss one; several in a row do not.
constexpr int kEmptyListings = 3;

// Kills every direct child that is not spared; false when there was none.
bool kill_children(std::vector<pid_t> const& spare) {
  bool any = false;
  for (pid_t const child : children_of(getpid())) {
    if (std::find(spare.begin(), spare.end(), child) == spare.end()) {
      kill(child, SIGKILL);
      any = true;
    }
  }
  return any;
}

bool signal_child(pid_t parent, pid_t pid, int signal) {
  auto const process = HeldProcess::hold(pid);
  auto const stat = process ? read_stat(pid) : std::nullopt;
  if (!stat || stat->parent != parent || stat->state == 'Z' || stat->state == 'X' ||
      (signal == SIGSTOP && (stat->state == 'T' || stat->state == 't')) || (signal == SIGKILL && is_dying(pid))) {
    return false;
  }
  return process->send(signal);
}

std::optional<Reaped> wait_without_blocking(pid_t which) {
  int status = 0;
  pid_t const pid = retried([&] { return waitpid(which, &status, WNOHANG); });
  if (pid <= 0) {
    return std::nullopt;
  }
  return Reaped{pid, ExitStatus::from_wait(status)};
}

}  // namespace

void become_subreaper() {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

std::optional<Reaped> reap_any() {
  return wait_without_blocking(-1);
}

std::optional<ExitStatus> reap(pid_t pid) {
  auto const reaped = wait_without_blocking(pid);
  return reaped ? std::optional(reaped->status) : std::nullopt;
}

std::optional<EndedChild> peek_ended() {
  siginfo_t info{};
  rusage used{};  // the library's waitid leaves it out; the kernel has it in KiB
  bool const any = syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, &used) == 0 && info.si_pid > 0;
  return any ? std::optional(EndedChild{info.si_pid, static_cast<std::uint64_t>(used.ru_maxrss) * 1024}) : std::nullopt;
}

bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

std::size_t signal_descendants(pid_t root, int signal) {
  std::size_t reached = 0;
  for (pid_t const child : children_of(root)) {
    reached += signal_child(root, child, signal) ? 1U : 0U;  // before its own: stopped, it starts no more of them
    reached += signal_descendants(child, signal);
  }
  return reached;
}

bool sweep_descendants(TimePoint deadline, std::vector<pid_t> const& spare) {
  sigset_t const child = make_sigset({SIGCHLD});
  block_signals(child);
  int empty = 0;
  for (;;) {
    empty = kill_children(spare) ? 0 : empty + 1;
    while (reap_any()) {
    }
    if (!has_children() || (!spare.empty() && empty >= kEmptyListings)) {
      return true;
    }
    if (Clock::now() >= deadline) {
      return false;
    }
    sigtimedwait(&child, nullptr, &kSweepPause);
  }
}

}  // namespace cxxrun::os
