// Calculations on gradients of this rank: weights and norms. Pure: memory in, memory out, no allocation.
#pragma once

#include <cstddef>

#include "cxxrun/dtype.hpp"

namespace cxxrun::gradient {

/// data[i] *= factor, calculated in f64, for 16-bit types in f32. A factor of 0 gives zeros, whatever the data.
void multiply(DType type, void* data, std::size_t count, double factor);

/// Sum of data[i]² in f64, in a fixed order.
[[nodiscard]] double sum_of_squares(DType type, void const* data, std::size_t count);

}  // namespace cxxrun::gradient
