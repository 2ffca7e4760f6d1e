// SignalInfo: a signal as data.
#pragma once

#include <csignal>
#include <cstdint>
#include <sys/types.h>

namespace cxxrun {

/// One signal that arrived and who sent it. `sender` is 0 for the kernel (a terminal's Ctrl-C) and for a sender
/// outside this pid namespace; `code` is si_code: SI_KERNEL for the terminal, SI_USER for kill(2).
struct SignalInfo {
  int signal = 0;
  pid_t sender = 0;
  int code = 0;
  std::uint32_t uid = 0;  ///< the sender's; nobody's when there is no sender
  bool operator==(SignalInfo const&) const = default;
};

/// What a terminal, a user or Slurm sends to end a program; one with no handler dies of it.
[[nodiscard]] constexpr bool asks_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace cxxrun
