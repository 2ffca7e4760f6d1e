#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "src/runtime/comm/kernels.hpp"
#include "src/runtime/comm/reduce.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/half_reference.hpp"

using cxxrun::Wire;
using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<Kernels const*> tables() {
  return {&portable_kernels(), &kernels()};
}

/// Floats with bits spread over all patterns.
std::vector<float> spread(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i * 2654435761U));
  }
  return values;
}

std::vector<std::byte> every_pattern() {
  std::vector<std::byte> bytes(0x10000 * 2);
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto const half = static_cast<std::uint16_t>(bits);
    std::memcpy(bytes.data() + bits * 2UL, &half, 2);
  }
  return bytes;
}

std::vector<std::uint32_t> bits_of(std::vector<float> const& values) {
  std::vector<std::uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * 4);
  return bits;
}

std::uint16_t half_at(std::byte const* bytes, std::size_t i) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes + i * 2, 2);
  return half;
}

}  // namespace

TEST_CASE("wire: sizes", "[unit]") {
  CHECK(wire_size(Wire::same) == 4);
  CHECK(wire_size(Wire::bf16) == 2);
  CHECK(wire_size(Wire::f16) == 2);
}

TEST_CASE("wire: encoding rounds as the definition says, at any length and alignment", "[unit]") {
  for (auto const& [wire, shape] : {std::pair(Wire::bf16, kBfloat16), std::pair(Wire::f16, kFloat16)}) {
    for (auto const* const table : tables()) {
      for (std::size_t const count : {0U, 1U, 5U, 8U, 31U, 100U, 20'000U}) {
        auto const values = spread(count);
        std::vector<std::byte> bytes(count * 2 + 2, std::byte{0x5a});
        table->encode[static_cast<std::size_t>(wire)](values.data(), bytes.data() + 1, count);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < count; ++i) {
          wrong += half_at(bytes.data() + 1, i) == reference_bits(values[i], shape) ? 0 : 1;
        }
        CHECK(wrong == 0);
        CHECK((bytes.front() == std::byte{0x5a} && bytes.back() == std::byte{0x5a}));
      }
    }
  }
}

TEST_CASE("wire: decoding is exact for every pattern, and adding is decoding first", "[unit]") {
  auto const encoded = every_pattern();
  for (auto const& [wire, shape] : {std::pair(Wire::bf16, kBfloat16), std::pair(Wire::f16, kFloat16)}) {
    for (auto const* const table : tables()) {
      std::vector<float> decoded(0x10000);
      std::vector<float> added(0x10000, 0.25F);
      table->decode[static_cast<std::size_t>(wire)](encoded.data(), decoded.data(), decoded.size());
      table->accumulate_encoded[static_cast<std::size_t>(wire)](encoded.data(), added.data(), added.size());
      std::size_t wrong = 0;
      for (std::uint32_t i = 0; i < 0x10000; ++i) {
        double const want = reference_value(static_cast<std::uint16_t>(i), shape);
        float const sum = 0.25F + static_cast<float>(want);
        bool const right = std::isnan(want) ? std::isnan(decoded[i]) && std::isnan(added[i])
                                            : static_cast<double>(decoded[i]) == want && added[i] == sum;
        wrong += right ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("wire: tables decode to the same bits, NaNs too", "[unit]") {
  auto const encoded = every_pattern();
  for (std::size_t const wire : {1U, 2U}) {
    std::vector<std::vector<float>> decoded;
    for (auto const* const table : tables()) {
      decoded.emplace_back(0x10000);
      table->decode[wire](encoded.data(), decoded.back().data(), 0x10000);
    }
    CHECK((bits_of(decoded.front()) == bits_of(decoded.back())));
  }
}

TEST_CASE("wire: f32 itself goes through unchanged", "[unit]") {
  auto const values = spread(1001);
  std::vector<std::byte> bytes(4004);
  encode(Wire::same, values.data(), bytes.data(), 1001);
  CHECK(std::memcmp(bytes.data(), values.data(), 4004) == 0);
  std::vector<float> back(1001);
  decode(Wire::same, bytes.data(), back.data(), 1001);
  CHECK((bits_of(back) == bits_of(values)));
  std::vector<float> sum(1001, 1.0F);
  std::vector<float> const twos(1001, 2.0F);
  std::memcpy(bytes.data(), twos.data(), 4004);
  accumulate_encoded(Wire::same, sum.data(), bytes.data(), 1001);
  CHECK(sum == std::vector<float>(1001, 3.0F));
}

#if defined(__x86_64__)
TEST_CASE("wire: a program that flushes subnormals to zero gets the same bits", "[unit]") {
  auto const encoded = every_pattern();
  auto const values = spread(0x10000);
  unsigned const before = _mm_getcsr();
  for (std::size_t const wire : {1U, 2U}) {
    for (auto const* const table : tables()) {
      std::vector<float> decoded(0x10000);
      std::vector<float> flushed(0x10000);
      std::vector<std::byte> rounded(0x20000);
      std::vector<std::byte> rounded_flushed(0x20000);
      table->decode[wire](encoded.data(), decoded.data(), 0x10000);
      table->encode[wire](values.data(), rounded.data(), 0x10000);
      _mm_setcsr(before | 0x8040U);  // flush to zero, denormals are zero
      table->decode[wire](encoded.data(), flushed.data(), 0x10000);
      table->encode[wire](values.data(), rounded_flushed.data(), 0x10000);
      _mm_setcsr(before);
      CHECK((bits_of(flushed) == bits_of(decoded)));
      CHECK((rounded_flushed == rounded));
    }
  }
}
#endif
