// StatusText: the table, stacks and logs of a job as text for people. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

/// The state of the job in one sentence, and whether it makes progress.
struct Judgement {
  std::string sentence;
  bool well = true;
};
[[nodiscard]] Judgement judge(Table const& table);

/// How the job is, what it is, and who coordinates it: at most 6 lines of 80 columns of ASCII.
[[nodiscard]] std::string head_text(Table const& table);
/// What the time was spent on so far, and how old the newest checkpoint is; "": nothing is known.
[[nodiscard]] std::string account_text(Table const& table);
/// "last checkpoint 0:12:04 h ago"
[[nodiscard]] std::string last_checkpoint_text(Millis age);
/// What has happened, and how long ago: a line without its end.
[[nodiscard]] std::string event_text(Table const& table, Table::Event const& event);
/// ASCII, at most 80 columns; at most 24 lines unless `all`.
[[nodiscard]] std::string status_text(Table const& table, bool all);
/// Shows equal stacks once, with their ranks; the most common stack comes last. `all`: all frames.
[[nodiscard]] std::string stacks_text(std::vector<Stack> stacks, bool all);
/// As many bytes of its end as make so many lines.
[[nodiscard]] std::string last_lines(std::string const& text, std::size_t lines);
/// The last lines of each file. If there are several files, a line above names each. `terminal`: control characters
/// become '?'.
[[nodiscard]] std::string tails_text(std::vector<Tail> const& tails, std::size_t lines, bool terminal);
/// The same for all lines of files that are followed. A line above names the file when it is not the one that was
/// `shown` last.
[[nodiscard]] std::string followed_text(std::vector<Tail> const& tails, std::string& shown, bool terminal);

}  // namespace cxxrun::launcher::view
