// How processes end: the exit codes of cxxrun, the end of a process as a value, and signals. Pure.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace cxxrun {

// The exit codes that are not a worker's own. docs/use/exit_codes.md begins with the functions that choose them.
inline constexpr int kExitUsage = 100;   ///< bad options or environment; do not retry
inline constexpr int kExitSystem = 111;  ///< temporary system failure
inline constexpr int kExitTooFewNodes = 112;
inline constexpr int kExitCoordinatorLost = 113;
inline constexpr int kExitUnkillable = 114;
inline constexpr int kExitNoProgress = 115;  ///< --requeue gave up: do not run it again unchanged
inline constexpr int kExitPartitioned = 116;
inline constexpr int kExitNotExecutable = 126;  ///< as in shells
inline constexpr int kExitNotFound = 127;

/// The end of one process, from waitpid's status word or the errno of a failed exec.
struct ExitStatus {
  enum class Kind { exited, signalled, not_started };
  Kind kind = Kind::exited;
  int value = 0;  ///< exit code 0..255, signal number, or errno of the failed start
  bool core_dumped = false;

  [[nodiscard]] static ExitStatus exited(int code) { return {Kind::exited, code, false}; }
  [[nodiscard]] static ExitStatus signalled(int signal) { return {Kind::signalled, signal, false}; }
  [[nodiscard]] static ExitStatus not_started(int error) { return {Kind::not_started, error, false}; }
  /// Decodes the status word of waitpid(2).
  [[nodiscard]] static ExitStatus from_wait(int status);

  [[nodiscard]] bool ok() const { return kind == Kind::exited && value == 0; }
  /// What a shell would report: the code, 128 + signal, 127 for "no such file", 126 for any other failed start.
  [[nodiscard]] int shell_code() const;
  /// "exit code 3", "signal 9 (SIGKILL)", "could not be started: No such file or directory".
  [[nodiscard]] std::string describe() const;
  bool operator==(ExitStatus const&) const = default;
};

/// "SIGTERM" for 15; "SIG42" for numbers without a name.
[[nodiscard]] std::string signal_name(int number);
/// The number of "SIGTERM", "TERM" or "15"; nothing for anything else.
[[nodiscard]] std::optional<int> signal_number(std::string_view name);

/// A signal that has arrived, and its sender. `sender` is 0 for the kernel (a terminal's Ctrl-C) and for a sender
/// outside this pid namespace. `code` is si_code: SI_KERNEL for the terminal, SI_USER for kill(2).
struct SignalInfo {
  int signal = 0;
  pid_t sender = 0;
  int code = 0;
  std::uint32_t uid = 0;  ///< the sender's; meaningless without a sender
  bool operator==(SignalInfo const&) const = default;
};

/// Whether a terminal, a user or Slurm sends this signal to end a program. Without a handler it kills.
[[nodiscard]] constexpr bool asks_to_end(int signal) {
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace cxxrun
