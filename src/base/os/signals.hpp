// Signals as data: blocked in every thread, read from a descriptor or on an event loop. Shell.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigset_t is POSIX, not C++

#include "cxxrun/error.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/os/fd.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::os {

[[nodiscard]] sigset_t make_sigset(std::initializer_list<int> signals);
/// Blocks the signals in the calling thread. Threads that it starts later inherit that.
void block_signals(sigset_t const& signals);
[[nodiscard]] bool is_ignored(int signal);

/// A descriptor that becomes readable when one of its signals is pending.
class SignalFd {
 public:
  SignalFd() = default;
  /// Blocks `signals` in the calling thread and opens the descriptor (non-blocking, CLOEXEC). Call it before
  /// threads start: a thread that does not block a signal may swallow it. Errc::io when there are no descriptors left.
  [[nodiscard]] static Result<SignalFd> open(sigset_t const& signals);

  [[nodiscard]] int fd() const { return fd_.get(); }
  /// The next pending signal; nothing when there is none. Never blocks.
  [[nodiscard]] std::optional<SignalInfo> read();

 private:
  UniqueFd fd_;
};

/// Calls `heard` for each signal, on the thread of the io_context, until it is destroyed.
class SignalWatch {
 public:
  SignalWatch(boost::asio::io_context& io, std::function<void(SignalInfo const&)> heard);

  /// Blocks `signals` in the calling thread and begins. Errc::io without a descriptor to spare.
  Result<void> begin(sigset_t const& signals);

 private:
  struct State;
  static void await(std::shared_ptr<State> const& watched);

  std::shared_ptr<State> state_;
};

}  // namespace cxxrun::os
