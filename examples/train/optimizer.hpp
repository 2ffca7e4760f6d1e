// Adam, over one parameter at a time.
#pragma once

#include <cstdint>
#include <span>

namespace train {

struct Adam {
  float rate = 6e-3F;
  float first = 0.9F;          ///< how slowly the mean of gradients moves
  float second = 0.99F;        ///< … and that of their squares
  std::uint64_t warm_up = 20;  ///< steps in which the rate grows to its full value
};

/// `step` counts from 1. `scale` multiplies the gradients first, for clipping.
void adam(Adam const& options, std::uint64_t step, std::span<float> parameter, std::span<float const> gradient,
          std::span<float> mean, std::span<float> square, float scale);

}  // namespace train
