// Report: the verdict as text for people. Pure. docs/use/logs.md and docs/use/verdict.md show it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

/// The full report, printed once by the coordinator: the first failure (host, rank, how, its last lines on stderr, the
/// message of torch's error file), the other failures folded under it, restarts used, the account. `colour`: ANSI
/// colours for a terminal. Empty for a success.
[[nodiscard]] std::string format_report(rendezvous::Verdict const& told, std::string const& program, bool colour);

inline constexpr std::size_t kColumns = 120;

/// How many rows of a terminal a line fills.
[[nodiscard]] std::size_t rows_of(std::string_view line);
/// The line, cut to that many rows with "…" at its end.
[[nodiscard]] std::string cut_to_rows(std::string line, std::size_t rows);

/// "  15 others:     SIGTERM by cxxrun": all failures except the first, and the workers that ended because of it. One
/// row for all that ended alike, most frequent first, at most kOthersShown rows.
[[nodiscard]] std::vector<std::string> other_lines(rendezvous::Verdict const& verdict);
inline constexpr std::size_t kOthersShown = 8;

/// Whether the account is worth showing in full: the job lasted for 10 s, or for 1 s and survived a failure.
[[nodiscard]] bool worth_telling(rendezvous::History const& history);
/// The account of the job's time: lines with their newlines. The elapsed time, and if it is worth telling what the time
/// was spent on and which failures cost most. "" when no time has passed.
[[nodiscard]] std::string account_lines(rendezvous::History const& history);

}  // namespace cxxrun::launcher
