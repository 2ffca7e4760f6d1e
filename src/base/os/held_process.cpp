#include "src/base/os/held_process.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/syscall.h>

#include "src/base/os/process_info.hpp"

namespace cxxrun::os {

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
  // A filter may know one of the two calls and forbid the other.
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
