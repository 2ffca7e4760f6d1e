#include "src/gradient/elements.hpp"

#include <array>
#include <cstring>

#include "src/comm/element_formats.hpp"

namespace cxxrun::gradient {
namespace {

using comm::BF16;
using comm::F16;
using comm::F32;
using comm::F64;

template <class Format>
void multiply_as(void* data, std::size_t count, double factor) {
  auto* const values = static_cast<typename Format::Stored*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = comm::multiplied<Format>(values[i], factor);
  }
}

template <class Format>
double sum_of_squares_as(void const* data, std::size_t count) {
  auto const* const values = static_cast<typename Format::Stored const*>(data);
  std::array<double, 8> sums{};  // independent, so that additions need not wait for each other
  std::size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      double const value = Format::wide(values[i + k]);
      sums[k] += value * value;
    }
  }
  for (; i < count; ++i) {
    double const value = Format::wide(values[i]);
    sums[0] += value * value;
  }
  double total = 0;
  for (double const sum : sums) {
    total += sum;
  }
  return total;
}

}  // namespace

void multiply(DType type, void* data, std::size_t count, double factor) {
  if (factor == 0) {
    if (count > 0) {
      std::memset(data, 0, count * size_of(type));
    }
    return;
  }
  switch (type) {
    case DType::f32: return multiply_as<F32>(data, count, factor);
    case DType::f64: return multiply_as<F64>(data, count, factor);
    case DType::f16: return multiply_as<F16>(data, count, factor);
    case DType::bf16: return multiply_as<BF16>(data, count, factor);
    default: return;  // no gradient has another type
  }
}

double sum_of_squares(DType type, void const* data, std::size_t count) {
  switch (type) {
    case DType::f32: return sum_of_squares_as<F32>(data, count);
    case DType::f64: return sum_of_squares_as<F64>(data, count);
    case DType::f16: return sum_of_squares_as<F16>(data, count);
    case DType::bf16: return sum_of_squares_as<BF16>(data, count);
    default: return 0;
  }
}

}  // namespace cxxrun::gradient
