// Restarts: how many are left, whether another try can help after a failure, and how long to wait before it. Pure.
//
// --max-restarts counts over the job's whole life, or within a sliding --restart-window. There is one count for the
// job: it is part of every generation and decree. Rules in words: docs/use/restarts.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/history/policy.hpp"
#include "rendezvous/values/decree.hpp"
#include "rendezvous/values/history.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Part of membership's State.
struct Restarts {
  std::uint32_t consumed = 0;
  std::vector<TimePoint> newest;  ///< times of the newest restarts, at most max_restarts of them
  Streak streak;
  bool executed = false;  ///< some node has started the program in this job
  bool begun = false;     ///< and the program came far enough to show that it lacks nothing
};

/// Consumed restarts that count against max_restarts now.
[[nodiscard]] std::uint32_t restarts_counted(Restarts const& restarts, TimePoint now, Policy const& policy);
[[nodiscard]] inline bool restart_left(Restarts const& restarts, TimePoint now, Policy const& policy) {
  return restarts_counted(restarts, now, policy) < policy.max_restarts;
}
void consume_restart(Restarts& restarts, TimePoint now, Policy const& policy);
/// A coordinator that takes over a job knows how many restarts were consumed, but not when. They count as consumed now,
/// so that a takeover never gives a job more restarts than it was allowed.
void inherit_restarts(Restarts& restarts, std::uint32_t consumed, TimePoint now, Policy const& policy);
/// An elected coordinator takes over what the last decree says. The decree does not say how far the program came: it is
/// assumed to have begun.
void inherit_decree(Restarts& restarts, Decree const& decided, TimePoint now, Policy const& policy);
/// "restart 2 of 3", or "restart 7 (2 of 3 within 3600 s)", of the one consumed last.
[[nodiscard]] std::string restart_text(Restarts const& restarts, TimePoint now, Policy const& policy);

// ---- can another try help? ------------------------------------------------------------------------------------

/// After this many failures in a row that look the same, of generations that died young, the job ends.
inline constexpr std::uint32_t kAlikeEnough = 3;

/// What a program that could not begin lacks, in its own words: a module, a library or its script. "" if it has begun.
[[nodiscard]] std::string missing_dependency(WorkerExit const& exit);
/// Python 3.14's pdb prints this question on stdout before it ends the program (Lib/pdb.py, do_quit). Earlier versions
/// raised BdbQuit.
inline constexpr std::string_view kDebuggerQuits = "Quitting pdb will kill the process. Quit anyway? [y/n]";
/// Whether these last words are those of a Python program that asked for input and read the end of its standard input,
/// or whose debugger quit because of that. It would do so again.
[[nodiscard]] bool is_unanswered(std::string_view line);
/// Whether these last words are a refusal by the Python package of what the program does. It would refuse it again.
[[nodiscard]] bool is_refused(std::string_view line);
/// Whether every restart would end with these last words of a Python program: it is refused or unanswered, or it lacks
/// something.
[[nodiscard]] bool is_repeated(std::string_view line);
/// The last words of a program that fails the same way whenever it is started: unanswered or refused; "" for any other.
[[nodiscard]] std::string permanent_failure(WorkerExit const& exit);
/// Whether `lacks`, from missing_dependency(), is something that the Python package needs.
[[nodiscard]] bool is_missed_by_package(std::string_view lacks);
/// Equal for failures that look the same: a hash of how the worker ended and of its last words without their numbers.
[[nodiscard]] std::uint64_t look_of(WorkerExit const& exit);

/// The streak after a generation that ended without a failure, and after one whose first failure was `exit`.
[[nodiscard]] Streak after_end(Streak streak, bool lived);
[[nodiscard]] Streak after_failure(Streak streak, bool lived, WorkerExit const& exit);
/// The wait before the next try: 0, 1, 5, then 30 s, but at most --restart-delay.
[[nodiscard]] Millis delay_after(Streak const& streak, Policy const& policy);

}  // namespace cxxrun::rendezvous
