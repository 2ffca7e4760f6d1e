// How a process ended, as a value: exit code, signal, or never started.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cxxrun {

/// The end of one process. Pure value; made from waitpid's status word or from the errno of a failed exec.
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

}  // namespace cxxrun
