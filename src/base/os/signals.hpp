// Signals as data: blocked in every thread, read from a descriptor.
#pragma once

#include <initializer_list>
#include <optional>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t is POSIX, not C++

#include "cxxrun/error.hpp"
#include "src/base/core/signal_info.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

[[nodiscard]] sigset_t make_sigset(std::initializer_list<int> signals);
/// Blocks the signals in the calling thread; threads made later inherit that.
void block_signals(sigset_t const& signals);
[[nodiscard]] bool is_ignored(int signal);

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
