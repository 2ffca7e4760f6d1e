// What the report is made of: rows of a terminal, and those that failed besides the cause, folded. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

inline constexpr std::size_t kColumns = 120;

/// How many rows of a terminal a line fills.
[[nodiscard]] std::size_t rows_of(std::string_view line);
/// The line, cut to that many rows with "…" at its end.
[[nodiscard]] std::string cut_to_rows(std::string line, std::size_t rows);

/// How a worker ended, in a few words: of one that cxxrun killed the reason says more than the signal.
[[nodiscard]] std::string how(rendezvous::WorkerExit const& exit);

/// "  15 others:     SIGTERM by cxxrun": the failures but the first and those that had to end because of it, a line for
/// all that ended alike, most of them first. At most kOthersShown lines of one row.
[[nodiscard]] std::vector<std::string> other_lines(rendezvous::Verdict const& verdict);
inline constexpr std::size_t kOthersShown = 8;
/// The workers that had to be killed after the time of the stop, one line for all with the same reason: at most
/// kKilledShown lines, of four rows.
[[nodiscard]] std::vector<std::string> killed_lines(rendezvous::Verdict const& verdict);
inline constexpr std::size_t kKilledShown = 3;

}  // namespace cxxrun::launcher
