#include "train/optimizer.hpp"

#include <algorithm>
#include <cmath>

namespace train {

AdamFactors adam_factors(Adam const& options, std::uint64_t step) {
  double const t = static_cast<double>(step);
  double const warmth = std::min(1.0, t / static_cast<double>(std::max<std::uint64_t>(1, options.warm_up)));
  return {.rate = static_cast<float>(options.rate * warmth / (1 - std::pow(options.first, t))),
          .unbias = static_cast<float>(1 / (1 - std::pow(options.second, t))),
          .first = options.first,
          .second = options.second};
}

void adam(AdamFactors const& factors, std::span<float> parameter, std::span<float const> gradient,
          std::span<float> mean, std::span<float> square, float scale) {
  auto const [rate, unbias, first, second] = factors;
  for (std::size_t i = 0; i < parameter.size(); ++i) {
    float const g = gradient[i] * scale;
    mean[i] = first * mean[i] + (1 - first) * g;
    square[i] = second * square[i] + (1 - second) * g * g;
    parameter[i] -= rate * mean[i] / (std::sqrt(square[i] * unbias) + 1e-8F);
  }
}

}  // namespace train
