// Grouping: which ranks a split puts together, and in which order. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cxxrun::comm {

/// What one rank asks for in a split. Travels between processes as it is.
struct Wish {
  std::int32_t color = -1;  ///< negative: no group
  std::int32_t key = 0;
};

[[nodiscard]] inline Wish wish_of(std::optional<int> color, int key) {
  return {color.value_or(-1), key};
}

/// The ranks with `rank`'s color, by key and then by rank; none when it wants no group.
[[nodiscard]] std::vector<int> members_of(std::span<Wish const> wishes, int rank);

}  // namespace cxxrun::comm
