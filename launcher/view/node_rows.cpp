#include "launcher/view/node_rows.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "launcher/view/figures.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr std::size_t kCells = 9;
using Cells = std::array<std::string, kCells>;
/// Of the columns. The last one, of GPUs, has its room from others.
constexpr std::array<std::size_t, kCells> kUsual{15, 11, 8, 9, 8, 4, 7, 5, 0};
constexpr std::array<std::size_t, kCells> kWithGpus{13, 11, 7, 8, 7, 4, 7, 5, 4};
constexpr std::array<std::size_t, kCells> const& widths_of(Table const& table) {
  return table.gpus ? kWithGpus : kUsual;
}
constexpr std::size_t kLeft = 2;  // columns that are aligned left
/// By Column.
constexpr std::array<char const*, kSortColumns> kNames{"ranks", "step", "a step", "begun", "wait", "MiB max", "CPU"};

/// Of the workers of a node.
struct Figures {
  std::uint64_t step = UINT64_MAX;
  std::uint64_t begun = UINT64_MAX;
  std::uint64_t waits = 0;
  std::uint64_t memory = 0;
  std::uint64_t permille = 0;
  Millis per_step{0};
  std::optional<std::uint32_t> gpu;  ///< percent, of the one that is least busy
};

Figures figures_of(Node const& node) {
  Figures all;
  for (auto const& worker : node.workers) {
    all.step = std::min(all.step, worker.step);
    all.begun = std::min(all.begun, worker.begun);
    all.waits += worker.waits ? 1 : 0;
    all.memory = std::max(all.memory, worker.memory_mib);
    all.permille += worker.permille;
    all.per_step = std::max(all.per_step, worker.per_step.value_or(Millis{0}));
    if (worker.gpu) {
      all.gpu = std::min(all.gpu.value_or(UINT32_MAX), worker.gpu->percent);
    }
  }
  return all;
}

/// The least comes first.
std::uint64_t order_by(Node const& node, Column column) {
  auto const all = figures_of(node);
  switch (column) {
    case Column::ranks: break;
    case Column::step: return all.step;
    case Column::per_step: return UINT64_MAX - static_cast<std::uint64_t>(all.per_step.count());
    case Column::begun: return all.begun;
    case Column::waits: return UINT64_MAX - all.waits;
    case Column::memory: return UINT64_MAX - all.memory;
    case Column::processor: return UINT64_MAX - all.permille;
  }
  return 0;
}

std::string ranks_of(Node const& node) {
  auto const first = std::to_string(node.workers.front().rank);
  return node.workers.size() == 1 ? first : first + "-" + std::to_string(node.workers.back().rank);
}

std::string letters_of(Node const& node) {
  std::set<char> letters;
  for (auto const& worker : node.workers) {
    letters.insert(worker.state);
  }
  return {letters.begin(), letters.end()};
}

bool has_slow(Table const& table, Node const& node) {
  return node.generation == table.generation && std::any_of(node.workers.begin(), node.workers.end(),
                                                            [&](Worker const& each) { return is_slow(table, each); });
}

/// A row of the table without its last cell. Names are aligned left, numbers right; a cell that is too long pushes the
/// others to the right.
std::string cells(Table const& table, Cells const& texts) {
  auto const& widths = widths_of(table);
  std::string row;
  for (std::size_t i = 0; i < texts.size() && widths[i] > 0; ++i) {
    std::string const gap(widths[i] - std::min(widths[i], texts[i].size()), ' ');
    row += (i < kLeft ? texts[i].substr(0, widths[i]) + gap : gap + texts[i]) + " ";
  }
  return row;
}

}  // namespace

char const* name_of(Column column) {
  return kNames.at(static_cast<std::size_t>(column));
}

std::vector<Node const*> nodes_by(Table const& table, Column column) {
  std::vector<Node const*> nodes;
  for (auto const& node : table.members) {
    if (!node.workers.empty()) {
      nodes.push_back(&node);
    }
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [column](Node const* a, Node const* b) { return order_by(*a, column) < order_by(*b, column); });
  return nodes;
}

std::string head_row(Table const& table, std::optional<Column> sorted) {
  Cells texts{"node"};
  texts.back() = "GPU";
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    auto& name = texts.at(i + 1) = kNames.at(i);
    if (sorted == static_cast<Column>(i)) {
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
    }
  }
  return cells(table, texts) + "state";
}

std::string node_row(Table const& table, Node const& node) {
  auto const all = figures_of(node);
  std::string const per_step = all.per_step > Millis{0} ? seconds_text(all.per_step) : "-";
  std::string const note = node.generation != table.generation ? "of generation " + std::to_string(node.generation)
                           : node.heard_ago > kSilent          ? "silent for " + elapsed_text(node.heard_ago)
                                                               : "";
  auto const text =
      cells(table, {node.host, ranks_of(node), std::to_string(all.step), per_step, std::to_string(all.begun),
                    std::to_string(all.waits), std::to_string(all.memory), std::to_string(all.permille / 10) + "%",
                    all.gpu ? std::to_string(*all.gpu) + "%" : "-"}) +
      (has_slow(table, node) ? "SLOW" : letters_of(node));
  // Beside a note the figures, which are old, would leave no room for it.
  auto const names = widths_of(table)[0] + widths_of(table)[1] + kLeft;
  return (note.empty() ? text : text.substr(0, names) + note).substr(0, kColumns);
}

}  // namespace cxxrun::launcher::view
