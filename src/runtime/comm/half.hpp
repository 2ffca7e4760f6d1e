// Conversions between float and the 16-bit floating point types, on bits: single numbers or vectors. Pure.
//
// `Lanes` names the types (Lanes<1> for numbers, Lanes<8> for vectors of eight). The code is the same for both and has
// no branches. Every function must be inlined into its caller, because some callers are compiled for newer CPUs.
//
// A NaN becomes quiet and keeps the upper bits of its payload, as with the conversion instructions of CPUs.
// Only the conversions of subnormal float16 calculate with floats, in steps that are exact or round correctly even if
// the caller flushes subnormal floats to zero; they rely on the default rounding mode.
//
// nvcc compiles the same code for GPUs (src/runtime/cuda/kernels.cu), so the tests on the CPU also cover the GPU's
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define CXXRUN_ALSO_ON_DEVICE __host__ __device__
#else
#define CXXRUN_ALSO_ON_DEVICE
#endif

namespace cxxrun::comm {

template <class T, std::size_t N>
struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));  // NOLINT(modernize-use-using): `using` drops it
};
template <class T>
struct VectorOf<T, 1> {
  using type = T;
};
template <class T, std::size_t N>
using Vector = typename VectorOf<T, N>::type;

template <std::size_t N>
struct Lanes {
  using Half = Vector<std::uint16_t, N>;
  using Float = Vector<float, N>;
  using Bits = Vector<std::uint32_t, N>;
  using Signed = Vector<std::int32_t, N>;

  [[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE static Bits bits_of(Float value) {
    return __builtin_bit_cast(Bits, value);
  }
  [[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE static Float float_of(Bits bits) {
    return __builtin_bit_cast(Float, bits);
  }
  [[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE static Bits widen(Half half) {
    if constexpr (N == 1) {
      return half;
    } else {
      return __builtin_convertvector(half, Bits);
    }
  }
  [[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE static Half narrow(Bits bits) {
    if constexpr (N == 1) {
      return static_cast<Half>(bits);
    } else {
      return __builtin_convertvector(bits, Half);
    }
  }
  /// a > b, for magnitudes; compares as signed numbers, for which every CPU has vector instructions.
  [[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE static auto above(Bits a, std::int32_t b) {
    return __builtin_bit_cast(Signed, a) > b;
  }
};

template <class L>
[[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE inline typename L::Float float_of_bf16(typename L::Half half) {
  return L::float_of(L::widen(half) << 16U);
}

template <class L>
[[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE inline typename L::Half bf16_of_float(typename L::Float value) {
  auto const bits = L::bits_of(value);
  // Adds half a unit, less one if the result would be odd in a tie. The carry correctly increments the exponent.
  auto const rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
  auto const nan = bits | 0x00400000U;
  return L::narrow((L::above(bits & 0x7fffffffU, 0x7f800000) ? nan : rounded) >> 16U);
}

template <class L>
[[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE inline typename L::Float float_of_f16(typename L::Half half) {
  auto const bits = L::widen(half);
  auto const magnitude = bits & 0x7fffU;
  auto const shifted = magnitude << 13U;
  // 2^-14 + m * 2^-24, minus 2^-14: exact, and no operand is a subnormal float.
  auto const subnormal = L::bits_of(L::float_of(shifted + 0x38800000U) - 0x1p-14F);
  auto const normal = shifted + 0x38000000U;
  auto const finite = L::above(magnitude, 0x03ff) ? normal : subnormal;
  auto const infinite = shifted | 0x7f800000U;
  auto const special = L::above(magnitude, 0x7c00) ? infinite | 0x00400000U : infinite;
  auto const result = L::above(magnitude, 0x7bff) ? special : finite;
  return L::float_of(result | ((bits & 0x8000U) << 16U));
}

template <class L>
[[gnu::always_inline]] CXXRUN_ALSO_ON_DEVICE inline typename L::Half f16_of_float(typename L::Float value) {
  auto const bits = L::bits_of(value);
  auto const magnitude = bits & 0x7fffffffU;
  // In [0.5, 1) the last bit of a float has the value of the smallest float16, so adding 0.5 rounds to it.
  auto const subnormal = L::bits_of(L::float_of(magnitude) + 0.5F) - 0x3f000000U;
  auto const normal = (magnitude - 0x38000000U + 0x0fffU + ((magnitude >> 13U) & 1U)) >> 13U;
  auto const finite = L::above(magnitude, 0x387fffff) ? normal : subnormal;
  auto const nan = ((magnitude >> 13U) & 0x03ffU) | 0x7e00U;
  auto const special = L::above(magnitude, 0x7f800000) ? nan : (nan & 0U) | 0x7c00U;
  auto const result = L::above(magnitude, 0x477fffff) ? special : finite;
  return L::narrow(result | ((bits >> 16U) & 0x8000U));
}

}  // namespace cxxrun::comm
