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

/// What a step multiplies with, the same for all elements.
struct AdamFactors {
  float rate = 0;    ///< with warm-up and the correction of the mean in it
  float unbias = 0;  ///< of the squares
  float first = 0, second = 0;
};
/// `step` counts from 1.
[[nodiscard]] AdamFactors adam_factors(Adam const& options, std::uint64_t step);

/// `scale` multiplies the gradients first, for clipping.
void adam(AdamFactors const& factors, std::span<float> parameter, std::span<float const> gradient,
          std::span<float> mean, std::span<float> square, float scale);

}  // namespace train
