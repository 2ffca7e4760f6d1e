// Figures: what a pulse says of one worker, as numbers. Pure. docs/use/live.md.
//
// New ones are appended. Who passes them on need not know them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace cxxrun::launcher::live {

enum class Figure : std::uint8_t {
  step,       ///< training steps that it has completed
  step_ago,   ///< milliseconds since the newest was; -1: none yet in this generation
  begun,      ///< collectives begun, in all of its groups
  waits,      ///< 1: it is in a collective
  memory,     ///< MiB that its process has resident
  processor,  ///< of its process since the last pulse, in thousandths of a core
  state,      ///< the kernel's letter, 'R' or 'D'; 'E': it has ended
};
inline constexpr std::array kFigureNames{"step",       "step_ago_ms",        "begun", "waits",
                                         "memory_mib", "processor_permille", "state"};
inline constexpr std::size_t kFigures = kFigureNames.size();
/// Of one worker, by Figure.
using Row = std::array<std::int64_t, kFigures>;

[[nodiscard]] constexpr std::int64_t& of(Row& row, Figure figure) {
  return row[static_cast<std::size_t>(figure)];
}
[[nodiscard]] constexpr std::int64_t of(Row const& row, Figure figure) {
  return row[static_cast<std::size_t>(figure)];
}

}  // namespace cxxrun::launcher::live
