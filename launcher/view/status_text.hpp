// StatusText: what a person sees of a job. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

/// What matters, in one sentence, and whether the job gets on.
struct Judgement {
  std::string sentence;
  bool well = true;
};
[[nodiscard]] Judgement judge(Table const& table);

/// ASCII, at most 80 columns; at most 24 lines unless `all`.
[[nodiscard]] std::string status_text(Table const& table, bool all);
/// Equal stacks once, with the ranks that they are of, those of most ranks last. `all`: all frames.
[[nodiscard]] std::string stacks_text(std::vector<Stack> stacks, bool all);
/// The last lines of each file, with a line above that names it where there are several. On a terminal control
/// characters are '?'.
[[nodiscard]] std::string tails_text(std::vector<Tail> const& tails, std::size_t lines, bool terminal);

}  // namespace cxxrun::launcher::view
