// DType: what an element of a buffer is, and the two 16-bit floating point types that C++20 lacks.
//
// float16 is IEEE 754 binary16; bfloat16 is the upper half of a float. Both are storage: to calculate, convert to
// float. Conversions to them round to nearest, ties to even; NaN stays NaN; what is too large becomes infinity.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cxxrun {

/// Element types of collectives. The numbers travel between processes: append only.
enum class DType : std::uint8_t { f32 = 0, f64 = 1, f16 = 2, bf16 = 3, i32 = 4, i64 = 5, u8 = 6 };

/// How ranks' elements become one. Integer sums wrap around. Sums of f16 and bf16 are calculated in f32 and rounded
/// once. min and max: a NaN of any rank wins, so that every rank sees it.
enum class ReduceOp : std::uint8_t { sum = 0, min = 1, max = 2 };

/// Bytes per element.
[[nodiscard]] std::size_t size_of(DType type);
/// "f32", "bf16", …, for messages.
[[nodiscard]] std::string_view name_of(DType type);
[[nodiscard]] std::string_view name_of(ReduceOp op);

struct float16 {
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);                    ///< rounds to nearest even
  explicit operator float() const;                  ///< exact
  bool operator==(float16 const&) const = default;  ///< of the bits: NaN equals itself, 0 is not -0
};

struct bfloat16 {
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);                    ///< rounds to nearest even
  explicit operator float() const;                   ///< exact
  bool operator==(bfloat16 const&) const = default;  ///< of the bits
};

/// The DType of a C++ type; no other type has one.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::u8;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace cxxrun
