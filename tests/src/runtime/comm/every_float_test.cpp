// Converts all 2^32 floats to both 16-bit types, with every table of kernels. The reference goes through the floats in
// order and knows the next middle between two neighbours of the 16-bit type.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "src/runtime/comm/kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/half_reference.hpp"

using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint32_t kBatch = 0x10000;
constexpr std::uint32_t kInfinity = 0x7f800000;

class Walk {
 public:
  explicit Walk(HalfShape const& shape)
      : shape_(shape), infinity_(static_cast<std::uint32_t>((2 * shape.bias + 1) << shape.mantissa)) {
    find_middle();
  }
  /// The pattern for the float with these bits; they never decrease.
  std::uint32_t at(std::uint32_t bits) {
    if (bits > kInfinity) {
      return reference_bits(std::bit_cast<float>(bits), shape_);
    }
    while (bits > middle_ || (bits == middle_ && half_ % 2 == 1)) {
      ++half_;
      find_middle();
    }
    return half_;
  }

 private:
  void find_middle() {
    middle_ = kInfinity;
    if (half_ < infinity_) {
      // After the largest number, round as if another number followed, not infinity.
      double const value = reference_value(static_cast<std::uint16_t>(half_), shape_);
      double const before = half_ == 0 ? 0 : reference_value(static_cast<std::uint16_t>(half_ - 1), shape_);
      double const after = half_ + 1 == infinity_ ? value + (value - before)
                                                  : reference_value(static_cast<std::uint16_t>(half_ + 1), shape_);
      middle_ = std::bit_cast<std::uint32_t>(static_cast<float>((value + after) / 2));
    }
  }
  HalfShape shape_;
  std::uint32_t infinity_;
  std::uint32_t half_ = 0;
  std::uint32_t middle_ = 0;
};

/// Batches that differ from the reference.
std::size_t wrong_batches(HalfShape const& shape, std::size_t wire) {
  Walk walk(shape);
  std::size_t wrong = 0;
  std::vector<std::uint32_t> bits(kBatch);
  std::vector<float> values(kBatch);
  std::vector<std::uint16_t> want(kBatch);
  std::vector<std::uint16_t> got(kBatch);
  for (std::uint32_t upper = 0; upper < kBatch / 2; ++upper) {
    for (std::uint32_t lower = 0; lower < kBatch; ++lower) {
      bits[lower] = upper << 16U | lower;
      want[lower] = static_cast<std::uint16_t>(walk.at(bits[lower]));
    }
    for (std::uint32_t const sign : {0U, 1U}) {
      for (std::uint32_t lower = 0; lower < kBatch; ++lower) {
        bits[lower] |= sign << 31U;
        want[lower] = static_cast<std::uint16_t>(want[lower] | sign << 15U);
      }
      std::memcpy(values.data(), bits.data(), kBatch * sizeof(float));
      for (auto const* const table : {&portable_kernels(), &kernels()}) {
        table->encode[wire](values.data(), reinterpret_cast<std::byte*>(got.data()), kBatch);
        wrong += got == want ? 0 : 1;
      }
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("wire: every float becomes the right bfloat16", "[slow]") {
  CHECK(wrong_batches(kBfloat16, 1) == 0);
}

TEST_CASE("wire: every float becomes the right float16", "[slow]") {
  CHECK(wrong_batches(kFloat16, 2) == 0);
}
