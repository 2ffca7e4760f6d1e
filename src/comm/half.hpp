// The bits of the 16-bit floating point types, to and from those of float. Pure; branch-free, so that loops over them
// become vector code.
//
// A NaN comes out quiet, with the upper bits of its payload: what the conversion instructions of CPUs do.
// Only float16's subnormals calculate with floats, in steps that are exact or round as wanted whether or not the
// caller flushes subnormal floats to zero; they rely on the default rounding mode.
#pragma once

#include <bit>
#include <cstdint>

namespace cxxrun::comm {

[[gnu::always_inline]] inline std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
[[gnu::always_inline]] inline float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

[[gnu::always_inline]] inline float float_of_bf16(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16U);
}

[[gnu::always_inline]] inline std::uint16_t bf16_of_float(float value) {
  std::uint32_t const bits = bits_of(value);
  // Half a unit, less one where the result would be odd in a tie. The carry runs into the exponent as it should.
  std::uint32_t const rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
  bool const nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>((nan ? bits | 0x00400000U : rounded) >> 16U);
}

[[gnu::always_inline]] inline float float_of_f16(std::uint16_t bits) {
  std::uint32_t const magnitude = bits & 0x7fffU;
  std::uint32_t const shifted = magnitude << 13U;
  // 2^-14 + m * 2^-24, less 2^-14: exact, and no operand is a subnormal float.
  std::uint32_t const subnormal = bits_of(float_of(shifted + 0x38800000U) - float_of(0x38800000U));
  std::uint32_t const normal = shifted + 0x38000000U;
  std::uint32_t const quiet = magnitude > 0x7c00U ? 0x7fc00000U : 0x7f800000U;
  std::uint32_t const finite = magnitude < 0x0400U ? subnormal : normal;
  std::uint32_t const result = magnitude >= 0x7c00U ? shifted | quiet : finite;
  return float_of(result | (static_cast<std::uint32_t>(bits & 0x8000U) << 16U));
}

[[gnu::always_inline]] inline std::uint16_t f16_of_float(float value) {
  std::uint32_t const bits = bits_of(value);
  std::uint32_t const magnitude = bits & 0x7fffffffU;
  // The unit of the last place of [0.5, 1) is the smallest float16: adding 0.5 rounds to it.
  std::uint32_t const subnormal = bits_of(float_of(magnitude) + 0.5F) - 0x3f000000U;
  std::uint32_t const normal = (magnitude - 0x38000000U + 0x0fffU + ((magnitude >> 13U) & 1U)) >> 13U;
  std::uint32_t const finite = magnitude < 0x38800000U ? subnormal : normal;
  std::uint32_t const nan = 0x7e00U | ((magnitude >> 13U) & 0x03ffU);
  std::uint32_t const special = magnitude > 0x7f800000U ? nan : 0x7c00U;
  std::uint32_t const result = magnitude >= 0x47800000U ? special : finite;
  return static_cast<std::uint16_t>(result | ((bits >> 16U) & 0x8000U));
}

}  // namespace cxxrun::comm
