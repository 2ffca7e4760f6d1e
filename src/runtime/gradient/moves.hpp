// Moves: how gradients come to their places in another layout inside of one arena, through a little room. Pure.
#pragma once

#include <vector>

#include "src/runtime/gradient/buckets.hpp"

namespace cxxrun::gradient {

/// A copy within the arena, in bytes. The ends do not overlap.
struct Move {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t bytes = 0;
};

/// Both layouts are of the same parameters. `room`: an even number of bytes at offset `at`, where nothing is kept;
/// multiples of Arena::kAlignment. Carried out in this order, the moves take every gradient and the padding behind it
/// to its place in `to`.
[[nodiscard]] std::vector<Move> plan_moves(Layout const& from, Layout const& to, std::size_t at, std::size_t room);

}  // namespace cxxrun::gradient
