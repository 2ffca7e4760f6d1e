// A model small enough for finite differences, a batch for it, and memory for what it has and gives.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "train/model.hpp"

namespace train {

inline constexpr Shape kTiny{.vocabulary = 7, .context = 5, .width = 6, .heads = 2, .blocks = 2};
inline std::vector<std::uint8_t> const kTokens{0, 3, 1, 6, 2, 2, 2, 4, 5, 0};
inline std::vector<std::uint8_t> const kTargets{3, 1, 6, 2, 5, 2, 4, 5, 0, 1};

template <class T>
struct Tensors {
  /// `before` is in all of it.
  explicit Tensors(Shape const& shape, T before = T(0)) {
    for (auto const& parameter : parameters(shape)) {
      memory.emplace_back(parameter.count, before);
    }
    views.assign(memory.begin(), memory.end());
  }
  std::vector<std::vector<T>> memory;
  std::vector<std::span<T>> views;
};

/// Values that no parameter is initialized to: gains other than 1 and biases other than 0 hide no mistake.
template <class T>
Tensors<T> parameters_of(Shape const& shape, std::uint64_t seed) {
  Tensors<T> made(shape);
  Model<T>::initialize(shape, seed, made.views);
  int i = 0;
  for (auto& values : made.memory) {
    for (T& value : values) {
      value = value * T(3) + T(0.2) * static_cast<T>(std::sin(++i));
    }
  }
  return made;
}

}  // namespace train
