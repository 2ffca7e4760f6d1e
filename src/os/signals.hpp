// Signals as data: blocked in every thread, read from a descriptor.
#pragma once

#include <initializer_list>
#include <optional>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t is POSIX, not C++

#include "cxxrun/error.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::os {

/// One signal that arrived and who sent it. `sender` is 0 for the kernel (a terminal's Ctrl-C) and for a sender
/// outside this pid namespace; `code` is si_code: SI_KERNEL for the terminal, SI_USER for kill(2).
struct SignalInfo {
  int signal = 0;
  pid_t sender = 0;
  int code = 0;
  bool operator==(SignalInfo const&) const = default;
};

[[nodiscard]] sigset_t make_sigset(std::initializer_list<int> signals);
/// Blocks the signals in the calling thread; threads made later inherit that.
void block_signals(sigset_t const& signals);

/// A descriptor that becomes readable when one of its signals is pending.
class SignalFd {
 public:
  SignalFd() = default;
  /// Blocks `signals` in the calling thread and opens the descriptor (non-blocking, CLOEXEC). Call it before
  /// threads start: a thread that does not block a signal may swallow it. Errc::io when descriptors are exhausted.
  [[nodiscard]] static Result<SignalFd> open(sigset_t const& signals);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The next pending signal; nothing when there is none. Never blocks.
  [[nodiscard]] std::optional<SignalInfo> read();

 private:
  UniqueFd fd_;
};

}  // namespace cxxrun::os
