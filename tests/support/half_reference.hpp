// The 16-bit floating point types by their definition, and the compiler's own: what conversions are compared with.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#ifdef __FLT16_MAX__
#define CXXRUN_HAS_FLOAT16
#endif

namespace cxxrun::test {

struct HalfShape {
  int mantissa;  ///< bits of it
  int bias;
};
constexpr HalfShape kFloat16{10, 15};
constexpr HalfShape kBfloat16{7, 127};

/// sign * 2^(exponent - bias) * (1 + mantissa / 2^bits), and what IEEE 754 makes of the first and the last exponent.
inline double reference_value(std::uint16_t bits, HalfShape const& shape) {
  int const sign = (bits & 0x8000U) != 0 ? -1 : 1;
  int const mantissa = bits & ((1 << shape.mantissa) - 1);
  int const exponent = (bits & 0x7fff) >> shape.mantissa;
  int const last = 2 * shape.bias + 1;
  if (exponent == last) {
    return mantissa != 0 ? std::nan("") : std::copysign(HUGE_VAL, sign);
  }
  int const whole = exponent == 0 ? mantissa : mantissa + (1 << shape.mantissa);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - shape.bias - shape.mantissa);
}

/// The nearest of all values, by arithmetic in double, which holds all numbers here exactly.
inline std::uint16_t reference_bits(float value, HalfShape const& shape) {
  auto const bits = std::bit_cast<std::uint32_t>(value);
  auto const sign = static_cast<std::uint32_t>((bits >> 16U) & 0x8000U);
  auto const infinity = static_cast<std::uint32_t>((2 * shape.bias + 1) << shape.mantissa);
  if (std::isnan(value)) {  // quiet, with the upper bits of the payload
    std::uint32_t const payload = (bits & 0x7fffffU) >> static_cast<unsigned>(23 - shape.mantissa);
    return static_cast<std::uint16_t>(sign | infinity | payload | 1U << static_cast<unsigned>(shape.mantissa - 1));
  }
  double const magnitude = std::abs(static_cast<double>(value));
  if (std::isinf(magnitude)) {
    return static_cast<std::uint16_t>(sign | infinity);
  }
  // Units of the last place at this magnitude; std::nearbyint rounds ties to even.
  int const exponent = magnitude == 0 ? 1 - shape.bias : std::max(std::ilogb(magnitude), 1 - shape.bias);
  double const units = std::nearbyint(std::ldexp(magnitude, shape.mantissa - exponent));
  // The value in units, less the hidden bit's, is the pattern: a carry into the next exponent is one unit more.
  auto const pattern =
      static_cast<std::uint32_t>(units) + static_cast<std::uint32_t>((exponent + shape.bias - 1) << shape.mantissa);
  return static_cast<std::uint16_t>(sign | std::min(pattern, infinity));
}

#ifdef CXXRUN_HAS_FLOAT16
inline std::uint16_t compiler_bits(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}
#endif

}  // namespace cxxrun::test
