// TopText: the screen of `cxxrunctl top`, and what keys do to it. Pure. docs/use/live.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/view/node_rows.hpp"
#include "launcher/view/table.hpp"

namespace cxxrun::launcher::view {

enum class Key : std::uint8_t { other, quit, up, down, page_up, page_down, sort, log };
/// The keys that a terminal has sent. The begun sequence of a key stays in `bytes`.
[[nodiscard]] std::vector<Key> take_keys(std::string& bytes);

/// What the person at the terminal has chosen.
struct TopChoice {
  std::size_t lines = 24;  ///< of the terminal
  std::size_t columns = 80;
  Column sort = Column::ranks;
  std::uint32_t rank = 0;  ///< the first one of the chosen node
  std::size_t row = 0;     ///< of that node when it was shown last: if it is gone, that of another one
  std::size_t first = 0;   ///< of the rows that are shown
  bool log = false;        ///< the log of `rank` is shown
  bool operator==(TopChoice const&) const = default;
};
/// After a key, and after each new table with Key::other. Chooses a node that is there, and scrolls to it.
[[nodiscard]] TopChoice choose(TopChoice choice, Key key, Table const& table);

/// A line without its end: ASCII, and no wider than the terminal.
struct TopLine {
  enum class Style : std::uint8_t { usual, well, alarm };
  std::string text;
  Style style = Style::usual;
};
/// At most as many lines as the terminal has. `tails`: of the log, if that is shown. `note`: what is wrong with the
/// answers, or "".
[[nodiscard]] std::vector<TopLine> top_lines(Table const& table, TopChoice const& choice,
                                             std::vector<Tail> const& tails, std::string const& note);
/// The bytes that draw them over the screen that is shown.
[[nodiscard]] std::string draw(std::vector<TopLine> const& lines, bool colour);

}  // namespace cxxrun::launcher::view
