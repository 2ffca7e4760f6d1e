#include "src/base/core/exit_status.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/wait.h>
#include <utility>

namespace cxxrun {
namespace {

/// The exit code for a worker that could not be started.
int start_error_code(int error) {
  switch (error) {
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return kExitSystem;
    case ENOENT:
    case ENOTDIR: return kExitNotFound;
    default: return kExitNotExecutable;
  }
}

constexpr std::array<std::pair<int, char const*>, 31> kSignals{{
    {SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
    {SIGABRT, "ABRT"},     {SIGBUS, "BUS"},   {SIGFPE, "FPE"},     {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
    {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"}, {SIGPIPE, "PIPE"},   {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
    {SIGSTKFLT, "STKFLT"}, {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},
    {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
    {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGIO, "IO"},     {SIGPWR, "PWR"},
    {SIGSYS, "SYS"},
}};

}  // namespace

ExitStatus ExitStatus::from_wait(int status) {
  if (WIFSIGNALED(status)) {
    return {Kind::signalled, WTERMSIG(status), static_cast<bool>(WCOREDUMP(status))};
  }
  return {Kind::exited, WEXITSTATUS(status), false};
}

int ExitStatus::shell_code() const {
  switch (kind) {
    case Kind::exited: return value;
    case Kind::signalled: return 128 + value;
    case Kind::not_started: return start_error_code(value);
  }
  return kExitNotExecutable;
}

std::string ExitStatus::describe() const {
  switch (kind) {
    case Kind::exited: return "exit code " + std::to_string(value);
    case Kind::signalled:
      return "signal " + std::to_string(value) + " (" + signal_name(value) + ")" + (core_dumped ? ", core dumped" : "");
    case Kind::not_started:
      return std::string("could not be started: ") + std::strerror(value);  // NOLINT(concurrency-mt-unsafe)
  }
  return {};
}

std::string signal_name(int number) {
  for (auto const& [value, name] : kSignals) {
    if (value == number) {
      return std::string("SIG") + name;
    }
  }
  return "SIG" + std::to_string(number);
}

std::optional<int> signal_number(std::string_view name) {
  if (name.starts_with("SIG")) {
    name.remove_prefix(3);
  }
  for (auto const& [value, text] : kSignals) {
    if (name == text || name == std::to_string(value)) {
      return value;
    }
  }
  return std::nullopt;
}

}  // namespace cxxrun
