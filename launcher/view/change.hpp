// Change: what a person is shown and asked before a job is changed. Pure. docs/use/live.md.
#pragma once

#include <string>

#include "launcher/view/ctl_options.hpp"
#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

/// How the job is, and what the verb will do to it: lines.
[[nodiscard]] std::string what_follows(Table const& table, CtlOptions const& options);
/// The question to the person, which ends without a line break.
[[nodiscard]] std::string question_of(Table const& table, CtlOptions const& options);
/// What the coordinator is told to do to the generation that was shown.
[[nodiscard]] live::Question order_of(Table const& table, CtlOptions const& options);
/// What was done, in one line, or why nothing; `done`: something was.
struct Outcome {
  std::string line;
  bool done = false;
};
[[nodiscard]] Outcome outcome_of(Change const& change);

}  // namespace cxxrun::launcher::view
