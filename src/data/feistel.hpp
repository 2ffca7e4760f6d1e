// A keyed permutation of 0 … size-1 for any size: a Feistel network over the bits of the index, walked along its cycle
// until it falls into the range. Pure; the same numbers on every machine, and pinned by a test: changing anything here
// changes the order of epochs that are under way.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace cxxrun::data {

/// Even, so that the halves end with the widths they began with.
constexpr std::size_t kRounds = 6;
using Keys = std::array<std::uint64_t, kRounds>;

/// Networks over fewer bits reach only some of the permutations; a longer walk over more bits makes up for it.
constexpr unsigned kFewestBits = 6;

/// The finaliser of splitmix64: every bit of the result depends on every bit of `x`.
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// The key of each round: seed and epoch are mixed one after the other, so that (seed 1, epoch 2) is not (2, 1).
constexpr Keys keys_of(std::uint64_t seed, std::uint64_t epoch) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
  Keys keys{};
  std::uint64_t const base = mix(mix(seed + kGolden) + epoch * kGolden + 1);
  for (std::size_t i = 0; i < kRounds; ++i) {
    keys[i] = mix(base + (i + 1) * kGolden);
  }
  return keys;
}

/// `position` < `size`. The halves may differ by one bit, so the network spans less than twice the size and a walk
/// has less than two steps on average (up to 32 for the smallest sizes).
constexpr std::uint64_t permute(Keys const& keys, std::uint64_t size, std::uint64_t position) {
  if (size < 2) {
    return position;
  }
  auto const bits = std::max(kFewestBits, static_cast<unsigned>(std::bit_width(size - 1)));
  unsigned const low = bits / 2;  // at most 32: no shift below reaches 64
  unsigned const high = bits - low;
  std::uint64_t const low_mask = (std::uint64_t{1} << low) - 1;
  std::uint64_t const high_mask = (std::uint64_t{1} << high) - 1;
  std::uint64_t x = position;
  do {
    std::uint64_t a = x >> low;
    std::uint64_t b = x & low_mask;
    for (std::size_t i = 0; i < kRounds; i += 2) {
      std::uint64_t const from_b = (b ^ keys[i]) * 0x9fb21c651e98df25U;
      a ^= ((from_b ^ (from_b >> 32U)) * 0xd6e8feb86659fd93U >> 32U) & high_mask;
      std::uint64_t const from_a = (a ^ keys[i + 1]) * 0x9fb21c651e98df25U;
      b ^= ((from_a ^ (from_a >> 32U)) * 0xd6e8feb86659fd93U >> 32U) & low_mask;
    }
    x = (a << low) | b;
  } while (x >= size);
  return x;
}

}  // namespace cxxrun::data
