#include "launcher/view/top_text.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "launcher/view/figures.hpp"
#include "launcher/view/status_text.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr std::size_t kTopEvents = 4;
constexpr std::size_t kLeastRows = 1;

struct Sequence {
  std::string_view bytes;
  Key key;
};
constexpr std::array kSequences{
    Sequence{"\x1b[A", Key::up},    Sequence{"\x1b[B", Key::down},     Sequence{"\x1bOA", Key::up},
    Sequence{"\x1bOB", Key::down},  Sequence{"\x1b[5~", Key::page_up}, Sequence{"\x1b[6~", Key::page_down},
    Sequence{"q", Key::quit},       Sequence{"Q", Key::quit},          Sequence{"k", Key::up},
    Sequence{"j", Key::down},       Sequence{"s", Key::sort},          Sequence{"l", Key::log},
    Sequence{"\x02", Key::page_up}, Sequence{"\x06", Key::page_down},  Sequence{" ", Key::page_down},
};

std::vector<std::string> lines_of(std::string const& text) {
  auto lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
  }
  return lines;
}

/// How many lines each part of the screen has.
struct Layout {
  std::size_t head = 0;
  std::size_t rows = 0;   ///< of nodes
  std::size_t below = 0;  ///< events, or the log
};
Layout layout(Table const& table, TopChoice const& choice) {
  constexpr std::size_t kOthers = 2;  // the names of the columns, and the last line
  Layout layout;
  layout.head = lines_of(head_text(table)).size();
  auto const left = choice.lines - std::min(choice.lines, layout.head + kOthers);
  auto const wanted = choice.log ? left / 2 : std::min(kTopEvents, table.events.size());
  layout.below = std::min(wanted, left - std::min(left, kLeastRows));
  layout.rows = left - layout.below;
  return layout;
}

std::size_t row_of(std::vector<Node const*> const& nodes, TopChoice const& choice) {
  auto const chosen = std::find_if(nodes.begin(), nodes.end(),
                                   [&](Node const* node) { return node->workers.front().rank == choice.rank; });
  return chosen != nodes.end() ? static_cast<std::size_t>(chosen - nodes.begin())
                               : std::min(choice.row, nodes.size() - std::min<std::size_t>(nodes.size(), 1));
}

/// The name of each file, and the lines of it for which there is room.
std::vector<std::string> log_lines(std::vector<Tail> const& tails, std::size_t most) {
  std::vector<std::string> all;
  for (auto const& tail : tails) {
    auto const room = most / tails.size();
    auto lines = lines_of(plain(printable_lines(last_lines(tail.text, room > 0 ? room - 1 : 0))));
    all.push_back(plain("rank " + std::to_string(tail.rank) + " on " + tail.host + ": " + tail.file));
    std::move(lines.begin(), lines.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::vector<Key> take_keys(std::string& bytes) {
  std::vector<Key> keys;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    auto const* const known = std::find_if(kSequences.begin(), kSequences.end(),
                                           [&](Sequence const& each) { return rest.starts_with(each.bytes); });
    bool const begun = std::any_of(kSequences.begin(), kSequences.end(), [&](Sequence const& each) {
      return each.bytes.size() > rest.size() && each.bytes.starts_with(rest);
    });
    if (known != kSequences.end()) {
      keys.push_back(known->key);
      rest.remove_prefix(known->bytes.size());
    } else if (begun) {
      break;
    } else if (rest.starts_with("\x1b[")) {  // of a key that has no meaning here: up to its last letter
      auto const end = std::find_if(rest.begin() + 2, rest.end(), [](char c) { return c >= '@' && c <= '~'; });
      rest.remove_prefix(std::min(rest.size(), static_cast<std::size_t>(end - rest.begin()) + 1));
    } else {
      rest.remove_prefix(1);
    }
  }
  bytes = std::string(rest);
  return keys;
}

TopChoice choose(TopChoice choice, Key key, Table const& table) {
  if (key == Key::sort) {
    choice.sort = static_cast<Column>((static_cast<std::size_t>(choice.sort) + 1) % kSortColumns);
  } else if (key == Key::log) {
    choice.log = !choice.log;
  }
  auto const nodes = nodes_by(table, choice.sort);
  if (nodes.empty()) {
    return choice;
  }
  auto const rows = std::max(layout(table, choice).rows, kLeastRows);
  auto row = row_of(nodes, choice);
  auto const by = key == Key::up || key == Key::down ? 1 : rows;
  if (key == Key::up || key == Key::page_up) {
    row -= std::min(row, by);
  } else if (key == Key::down || key == Key::page_down) {
    row = std::min(row + by, nodes.size() - 1);
  }
  choice.row = row;
  choice.rank = nodes[row]->workers.front().rank;
  auto const last = nodes.size() - std::min(nodes.size(), rows);
  choice.first = std::min({std::max(choice.first, row + 1 - std::min(row + 1, rows)), row, last});
  return choice;
}

std::vector<TopLine> top_lines(Table const& table, TopChoice const& choice, std::vector<Tail> const& tails,
                               std::string const& note) {
  using Style = TopLine::Style;
  std::vector<TopLine> lines;
  auto const sizes = layout(table, choice);
  auto const nodes = nodes_by(table, choice.sort);
  for (auto& line : lines_of(head_text(table))) {
    lines.push_back({std::move(line), lines.empty() ? judge(table).well ? Style::well : Style::alarm : Style::usual});
  }
  auto const head = head_row(table, choice.sort);
  lines.push_back({" " + head.substr(0, head.rfind(' ') + 1) + "S"});  // "state" would be one letter too long
  for (std::size_t i = choice.first; i < choice.first + sizes.rows; ++i) {
    bool const chosen = i < nodes.size() && nodes[i]->workers.front().rank == choice.rank;
    lines.push_back({i < nodes.size() ? (chosen ? ">" : " ") + plain(node_row(table, *nodes[i])) : ""});
  }
  std::vector<std::string> below;
  if (choice.log) {
    below = log_lines(tails, sizes.below);
  } else {
    std::transform(table.events.begin(), table.events.end(), std::back_inserter(below),
                   [&](Table::Event const& event) { return event_text(table, event); });
  }
  auto const skipped = choice.log ? 0 : below.size() - std::min(below.size(), sizes.below);
  for (auto i = skipped; i < skipped + sizes.below; ++i) {
    lines.push_back({i < below.size() ? below[i] : ""});
  }
  auto const hidden = nodes.size() > sizes.rows ? counted(nodes.size(), "node") + "; " : "";
  lines.push_back(note.empty() ? TopLine{hidden + "q quits, arrows and page keys choose, s sorts (" +
                                         name_of(choice.sort) + "), l log"}
                               : TopLine{plain(note), Style::alarm});
  lines.resize(std::min(lines.size(), choice.lines));
  for (auto& line : lines) {
    line.text = line.text.substr(0, choice.columns);
  }
  return lines;
}

std::string draw(std::vector<TopLine> const& lines, bool colour) {
  std::string bytes = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto const& [text, style] = lines[i];
    bool const marked = colour && style != TopLine::Style::usual;
    bytes += i > 0 ? "\r\n\x1b[K" : "\x1b[K";  // before the text: behind a full line it would erase the last column
    bytes += (marked ? style == TopLine::Style::well ? "\x1b[1m" : "\x1b[1;31m" : "") + text + (marked ? "\x1b[m" : "");
  }
  return bytes;
}

}  // namespace cxxrun::launcher::view
