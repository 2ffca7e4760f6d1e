#include "src/base/os/children.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "src/base/os/fd.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/signals.hpp"

namespace cxxrun::os {
namespace {

constexpr timespec kSweepPause{0, 300'000};
// A listing taken while processes start and end may miss one; several in a row do not.
constexpr int kEmptyListings = 3;

// Kills every direct child but the spared ones; false when there was none.
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
  rusage used{};  // only the system call fills it, memory in KiB; the library's waitid has no such argument
  bool const any = syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, &used) == 0 && info.si_pid > 0;
  if (!any) {
    return std::nullopt;
  }
  auto const millis = [](timeval const& time) {
    return std::chrono::duration_cast<Millis>(std::chrono::seconds(time.tv_sec) +
                                              std::chrono::microseconds(time.tv_usec));
  };
  return EndedChild{info.si_pid, static_cast<std::uint64_t>(used.ru_maxrss) * 1024,
                    millis(used.ru_utime) + millis(used.ru_stime)};
}

bool has_children() {
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

std::size_t signal_descendants(pid_t root, int signal) {
  std::size_t reached = 0;
  for (pid_t const child : children_of(root)) {
    reached += signal_child(root, child, signal) ? 1U : 0U;  // before its children: once stopped it starts no more
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

std::optional<HeldProcess> HeldProcess::hold(pid_t pid) {
  HeldProcess held;
  held.pid_ = pid;
  held.fd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (held.fd_) {
    return held;
  }
  auto const stat = errno == ESRCH ? std::nullopt : read_stat(pid);
  if (!stat) {
    return std::nullopt;
  }
  held.start_ = stat->start;
  return held;
}

bool HeldProcess::send(int signal) const {
  if (fd_ && syscall(SYS_pidfd_send_signal, fd_.get(), signal, nullptr, 0) == 0) {
    return true;
  }
  // A filter may allow pidfd_open and forbid pidfd_send_signal.
  bool const by_pid = !fd_ || errno == ENOSYS || errno == EPERM;
  return by_pid && runs() && kill(pid_, signal) == 0;
}

bool HeldProcess::runs() const {
  if (fd_) {
    pollfd ended{fd_.get(), POLLIN, 0};
    return poll(&ended, 1, 0) == 0;
  }
  auto const stat = read_stat(pid_);
  return stat && stat->start == start_ && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace cxxrun::os
