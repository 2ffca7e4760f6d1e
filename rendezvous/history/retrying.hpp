// Retrying: whether another try can help after a failure, and how long to wait before it. Pure.
//
// Rules in words: docs/use/restarts.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/history/policy.hpp"
#include "rendezvous/values/streak.hpp"
#include "rendezvous/values/worker_exit.hpp"

namespace cxxrun::rendezvous {

/// So many failures that look the same, of generations that died young, are enough.
inline constexpr std::uint32_t kAlikeEnough = 3;

/// What a program that could not begin lacks, in its own words: a module, a library, its script; "" when it has begun.
[[nodiscard]] std::string lacking(WorkerExit const& exit);
/// What pdb asks on stdout before it ends the program, since Python 3.14 (Lib/pdb.py, do_quit); before, it raised
/// BdbQuit.
inline constexpr std::string_view kDebuggerQuits = "Quitting pdb will kill the process. Quit anyway? [y/n]";
/// Whether these last words are those of a Python program that asked and got the end of its standard input for an
/// answer, as it would again, or whose debugger has quit, which it does then, too.
[[nodiscard]] bool is_unanswered(std::string_view line);
/// Whether these last words are the Python package's, which refuses what the program does, as it would again.
[[nodiscard]] bool is_refused(std::string_view line);
/// Whether every restart would meet again what these last words of a Python program tell of: it is refused or
/// unanswered, or it lacks something.
[[nodiscard]] bool is_repeated(std::string_view line);
/// The last words of a program that fails so whenever it is started: unanswered or refused; "" for any other.
[[nodiscard]] std::string incurable(WorkerExit const& exit);
/// Whether what a program lacks, in the words of lacking(), is what the Python package needs.
[[nodiscard]] bool is_missed_by_package(std::string_view lacks);
/// Equal for failures that look the same: how the worker ended, and the last thing that it said, without its numbers.
[[nodiscard]] std::uint64_t look_of(WorkerExit const& exit);

/// After a generation that ended without a failure, and after one whose first failure was `exit`.
[[nodiscard]] Streak after_end(Streak streak, bool lived);
[[nodiscard]] Streak after_failure(Streak streak, bool lived, WorkerExit const& exit);
/// Before the try that follows these failures: 0, 1, 5 and 30 s, never longer than --restart-delay.
[[nodiscard]] Millis delay_after(Streak const& streak, Policy const& policy);

}  // namespace cxxrun::rendezvous
