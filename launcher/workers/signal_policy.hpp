// Signal policy: what the agent does about a signal, decided from who sent it. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/base/core/signal_info.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

enum class SignalVerdict {
  ignore,                   ///< not for us, or nothing new
  stop,                     ///< stop gracefully; the workers are to be signalled
  stop_without_forwarding,  ///< stop gracefully; Slurm has signalled the workers itself
  kill_now,                 ///< second Ctrl-C: SIGKILL at once
  forward_only,             ///< not a stop: pass it to the workers that catch it
};

/// Who is who, found out once at start.
struct SignalContext {
  pid_t parent = 0;                 ///< our monitor, which passes on what it receives
  std::optional<pid_t> slurmstepd;  ///< under Slurm: who signals for scancel; 0 = outside our pid namespace
  bool interrupt_ignored = false;   ///< SIGINT was ignored at start: a terminal's Ctrl-C is for others
  std::set<int> also_stop = {};     ///< --signals-to-handle
};

/// What has happened so far.
struct SignalState {
  bool stopping = false;
  bool interrupted = false;             ///< one Ctrl-C from a terminal has been seen
  std::map<int, TimePoint> from_slurm;  ///< when Slurm last sent a signal to us directly
};

struct SignalStep {
  SignalState next;
  SignalVerdict verdict = SignalVerdict::ignore;
  std::string reason;
};

/// TERM, INT, HUP, QUIT and what the user named stop; everything else is passed on. A second stop is nothing new
/// (Slurm's time limit sends two TERMs), except a second Ctrl-C from a terminal. Slurm's linuxproc tracking signals the
/// whole tree: then the parent's copy, which follows within a moment, is the same signal and is dropped.
[[nodiscard]] SignalStep classify(SignalState state, SignalInfo const& signal, TimePoint now,
                                  SignalContext const& context);

/// Who sent it in the first place: "from Slurm", "from pid 292 (kill), uid 1000"; "" of a terminal's.
[[nodiscard]] std::string sender_text(SignalInfo const& signal, std::string const& program,
                                      SignalContext const& context);

}  // namespace cxxrun::launcher
