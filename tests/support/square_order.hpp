// A sum of squares in the order of additions of the GPU's kernels (src/runtime/cuda/device_kernels.hpp), as loops.
#pragma once

#include <cstdint>
#include <vector>

#include "src/runtime/cuda/device_kernels.hpp"

namespace cxxrun::test {

/// In halves; as many as a power of two.
inline double folded(std::vector<double> sums) {
  for (std::size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (std::size_t t = 0; t < half; ++t) {
      sums[t] += sums[t + half];
    }
  }
  return sums[0];
}

/// Of the formats in src/runtime/comm/element_formats.hpp.
template <class Format>
double squares_in_order(typename Format::Stored const* data, std::uint64_t count) {
  using cuda::kSquareBlocks;
  using cuda::kSquareThreads;
  constexpr std::uint64_t kPack = 16 / sizeof(*data);
  std::uint64_t const packs = count / kPack;
  std::vector<double> blocks(kSquareBlocks);
  for (std::uint64_t block = 0; block < kSquareBlocks; ++block) {
    std::vector<double> sums(kSquareThreads);
    for (std::uint64_t thread = 0; thread < kSquareThreads; ++thread) {
      auto const first = block * kSquareThreads + thread;
      auto const add = [&](std::uint64_t i) {
        double const value = Format::wide(data[i]);
        sums[thread] += value * value;
      };
      for (std::uint64_t pack = first; pack < packs; pack += std::uint64_t{kSquareBlocks} * kSquareThreads) {
        for (std::uint64_t k = 0; k < kPack; ++k) {
          add(pack * kPack + k);
        }
      }
      if (first < count % kPack) {
        add(packs * kPack + first);
      }
    }
    blocks[block] = folded(std::move(sums));
  }
  return folded(std::move(blocks));
}

}  // namespace cxxrun::test
