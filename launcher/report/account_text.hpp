// AccountText: where the hours of a job went, as lines for people. Pure. docs/use/verdict.md.
#pragma once

#include <string>

#include "rendezvous/values/history.hpp"

namespace cxxrun::launcher {

/// Training in percent of all, with one decimal: "91.3 %".
[[nodiscard]] std::string goodput_text(rendezvous::History const& history);
/// Whether the account says more than how long it took: the job lasted for 10 s, or for 1 s and survived a failure.
[[nodiscard]] bool worth_telling(rendezvous::History const& history);
/// Lines for the report, each with its newline: the elapsed time, and what it was spent on where that is worth telling,
/// with the failures that cost most. "" when no time has passed.
[[nodiscard]] std::string account_lines(rendezvous::History const& history);

}  // namespace cxxrun::launcher
