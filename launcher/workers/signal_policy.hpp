// Signal policy: decides what the agent does about a signal, by its number and its sender. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

enum class SignalVerdict {
  ignore,                   ///< not for us, or known already
  stop,                     ///< stop gracefully, and signal the workers
  stop_without_forwarding,  ///< stop gracefully; Slurm has signalled the workers itself
  kill_now,                 ///< second Ctrl-C: SIGKILL at once
  forward_only,             ///< not a stop: pass it to the workers that catch it
};

/// The possible senders, found out once at the start.
struct SignalContext {
  pid_t parent = 0;                 ///< our monitor, which passes on the signals it receives
  std::optional<pid_t> slurmstepd;  ///< under Slurm: the sender of scancel's signals; 0 = outside our pid namespace
  bool interrupt_ignored = false;   ///< SIGINT was ignored at the start: a terminal's Ctrl-C is not for us
  std::set<int> also_stop = {};     ///< --signals-to-handle
};

/// The signals so far.
struct SignalState {
  bool stopping = false;
  bool interrupted = false;             ///< one Ctrl-C from a terminal has been seen
  std::map<int, TimePoint> from_slurm;  ///< by signal: when Slurm last sent it to us directly
};

struct SignalStep {
  SignalState next;
  SignalVerdict verdict = SignalVerdict::ignore;
  std::string reason;
};

/// TERM, INT, HUP, QUIT and the signals that the user has named are stops; all others are passed on. A second stop is
/// ignored (Slurm's time limit sends two TERMs), except a second Ctrl-C from a terminal. With proctrack/linuxproc Slurm
/// signals every process itself: the copy that our parent passes on a moment later is ignored.
[[nodiscard]] SignalStep classify(SignalState state, SignalInfo const& signal, TimePoint now,
                                  SignalContext const& context);

/// The original sender: "from Slurm", "from pid 292 (kill), uid 1000"; "" for a terminal.
[[nodiscard]] std::string sender_text(SignalInfo const& signal, std::string const& program,
                                      SignalContext const& context);

}  // namespace cxxrun::launcher
