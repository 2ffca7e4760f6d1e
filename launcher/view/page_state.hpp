// PageState: the table of a job as the page gets it: the whole, or what has changed since the last second. Pure.
//
// A viewer gets events of text/event-stream: "all" with every field, then "tick" with those that differ, then "over".
// Fields are columns over nodes or ranks, so that one that stays costs nothing. Above kMostCells ranks there is a cell
// for each node, and the ranks that stand out.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

inline constexpr std::size_t kMostCells = 1024;

/// Names, and values as JSON; always the same names in the same order.
using PageState = std::vector<std::pair<char const*, std::string>>;
[[nodiscard]] PageState page_state(Table const& table);
/// The same state, but with why nothing newer is known ("" = it is new).
[[nodiscard]] PageState with_trouble(PageState state, std::string const& why);

/// One line of JSON.
[[nodiscard]] std::string state_json(PageState const& state);
/// Events of a stream.
[[nodiscard]] std::string all_event(PageState const& state);
[[nodiscard]] std::string tick_event(PageState const& before, PageState const& now);
[[nodiscard]] std::string over_event(std::string const& why);

/// {"files":[{"host","file","text"}],"errors":[…]}. Texts without control characters and colours.
[[nodiscard]] std::string tails_json(Items<Tail> const& tails);
/// {"stacks":[{"rank","host","place","frames"}],"errors":[…]}
[[nodiscard]] std::string stacks_json(Items<Stack> const& stacks);
/// {"error": why}
[[nodiscard]] std::string page_error_json(std::string const& why);

}  // namespace cxxrun::launcher::view
