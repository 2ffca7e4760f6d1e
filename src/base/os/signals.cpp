#include "src/base/os/signals.hpp"

#include <cerrno>
#include <sys/signalfd.h>

#include "src/base/os/fd_io.hpp"

namespace cxxrun::os {

sigset_t make_sigset(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int const signal : signals) {
    sigaddset(&set, signal);
  }
  return set;
}

void block_signals(sigset_t const& signals) {
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

Result<SignalFd> SignalFd::open(sigset_t const& signals) {
  block_signals(signals);
  SignalFd made;
  made.fd_.reset(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!made.fd_) {
    return fail(Errc::io, "cannot open a descriptor for signals", errno);
  }
  return made;
}

std::optional<SignalInfo> SignalFd::read() {
  signalfd_siginfo info{};
  auto const got = retried([&] { return ::read(fd_.get(), &info, sizeof info); });
  if (got != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return SignalInfo{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid), info.ssi_code, info.ssi_uid};
}

}  // namespace cxxrun::os
