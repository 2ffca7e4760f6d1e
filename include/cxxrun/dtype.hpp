// DType: the type of a buffer's elements, and the two 16-bit floating point types that C++20 lacks.
//
// float16 is IEEE 754 binary16; bfloat16 is the upper half of a float. Both only store values: convert to float to
// calculate. Conversion to them rounds to nearest, ties to even; NaN stays NaN; too large values become infinity.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include "cxxrun/version.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace cxxrun {

/// Element types of collectives. The numbers are part of the wire protocol: append only.
enum class DType : std::uint8_t { f32 = 0, f64 = 1, f16 = 2, bf16 = 3, i32 = 4, i64 = 5, u8 = 6 };

/// How the elements of the ranks are combined. Integer sums wrap around. Sums of f16 and bf16 are calculated in f32 and
/// rounded once. min and max return NaN if any rank has a NaN.
enum class ReduceOp : std::uint8_t { sum = 0, min = 1, max = 2 };

/// Bytes per element.
[[nodiscard]] std::size_t size_of(DType type);
/// "f32", "bf16" and so on, for messages.
[[nodiscard]] std::string_view name_of(DType type);
[[nodiscard]] std::string_view name_of(ReduceOp op);

// Named like the built-in types.
struct float16 {  // NOLINT(readability-identifier-naming)
  std::uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);                    ///< rounds to nearest even
  explicit operator float() const;                  ///< exact
  bool operator==(float16 const&) const = default;  ///< compares bits: NaN equals itself, 0 is not -0
};

struct bfloat16 {  // NOLINT(readability-identifier-naming)
  std::uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);                    ///< rounds to nearest even
  explicit operator float() const;                   ///< exact
  bool operator==(bfloat16 const&) const = default;  ///< compares bits
};

namespace detail {
template <class T>
consteval DType dtype_of_type() {
  if constexpr (std::is_same_v<T, float>) {
    return DType::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::f64;
  } else if constexpr (std::is_same_v<T, float16>) {
    return DType::f16;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return DType::bf16;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return DType::i32;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    return DType::i64;
  } else {
    static_assert(std::is_same_v<T, std::uint8_t>, "no DType stands for this type");
    return DType::u8;
  }
}
}  // namespace detail

/// The DType of a C++ type; does not compile for other types.
template <class T>
inline constexpr DType dtype_of = detail::dtype_of_type<T>();  // NOLINT(readability-identifier-naming): like a function

}  // namespace cxxrun
