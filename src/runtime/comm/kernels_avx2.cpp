#include "src/runtime/comm/kernel_loops.hpp"

// Only this file is compiled for AVX2 and F16C. Nothing in it may run before kernels() has checked the CPU, and none of
// its functions may be shared with other files (see kernel_loops.hpp).

#if defined(__AVX2__) && defined(__F16C__)

#include <immintrin.h>

namespace cxxrun::comm {
namespace {

struct Avx2 {
  static constexpr std::size_t kBytes = 32;
};

/// float16 by the CPU's own conversions, eight at a time. They give the same bits as F16.
struct Half : loops::F16 {
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<float, N> value_of(Vector<Stored, N> stored) {
    if constexpr (N == 8) {
      return _mm256_cvtph_ps(__builtin_bit_cast(__m128i, stored));
    } else {
      return F16::value_of<N>(stored);
    }
  }
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<Stored, N> stored_of(Vector<float, N> value) {
    if constexpr (N == 8) {
      return __builtin_bit_cast(Vector<Stored, N>, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
    } else {
      return F16::stored_of<N>(value);
    }
  }
};

/// g++ 12 generates three or more instructions for each of these.
template <std::size_t N>
struct WideLanes : Lanes<N> {};
template <>
struct WideLanes<8> : Lanes<8> {
  [[gnu::always_inline]] static Bits widen(Vector<std::uint16_t, 8> half) {
    return __builtin_bit_cast(Bits, _mm256_cvtepu16_epi32(__builtin_bit_cast(__m128i, half)));
  }
  /// For numbers below 2^16.
  [[gnu::always_inline]] static Vector<std::uint16_t, 8> narrow(Bits bits) {
    __m256i const whole = __builtin_bit_cast(__m256i, bits);
    __m128i const packed = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    return __builtin_bit_cast(Vector<std::uint16_t, 8>, packed);
  }
};

constexpr Kernels kAvx2 = loops::table<Avx2, Half, loops::Bf16<WideLanes>>();

}  // namespace

Kernels const* avx2_kernels() {
  return &kAvx2;
}

}  // namespace cxxrun::comm

#else

namespace cxxrun::comm {

Kernels const* avx2_kernels() {
  return nullptr;
}

}  // namespace cxxrun::comm

#endif
