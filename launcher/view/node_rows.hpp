// NodeRows: the nodes of a job as rows of 80 columns. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/view/table.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher::view {

inline constexpr std::size_t kColumns = 80;
inline constexpr Millis kSilent{15'000};  // a node that is not heard from for so long is silent

/// Columns by which nodes can be sorted, in the order in which `top` goes through them.
enum class Column : std::uint8_t { ranks, step, per_step, begun, waits, memory, processor };
inline constexpr std::size_t kSortColumns = static_cast<std::size_t>(Column::processor) + 1;
[[nodiscard]] char const* name_of(Column column);

/// The nodes with workers: by rank, or those first that are furthest behind or use most.
[[nodiscard]] std::vector<Node const*> nodes_by(Table const& table, Column column);
/// The names of the columns, that of `sorted` in capitals. There is one of GPUs where any is known.
[[nodiscard]] std::string head_row(Table const& table, std::optional<Column> sorted = std::nullopt);
/// The figures of a node, which has workers: a line without its end.
[[nodiscard]] std::string node_row(Table const& table, Node const& node);

}  // namespace cxxrun::launcher::view
