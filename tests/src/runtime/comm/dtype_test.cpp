#include "cxxrun/dtype.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/half_reference.hpp"

using cxxrun::bfloat16;
using cxxrun::DType;
using cxxrun::float16;
using cxxrun::ReduceOp;
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

template <class Half>
Half of_bits(std::uint32_t bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

/// Floats around every value of the 16-bit type: the value, the middle to the next value, and the floats beside both.
template <class Half>
std::vector<float> borders() {
  std::vector<float> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float const value = static_cast<float>(of_bits<Half>(bits));
    float const next = static_cast<float>(of_bits<Half>(bits + 1));
    double const middle = (static_cast<double>(value) + static_cast<double>(next)) / 2;
    for (float const at : {value, static_cast<float>(middle)}) {
      all.push_back(at);
      all.push_back(std::nextafter(at, INFINITY));
      all.push_back(std::nextafter(at, -INFINITY));
    }
  }
  return all;
}

/// Every sign and exponent, with mantissas that have to be rounded.
std::vector<float> every_exponent() {
  std::vector<float> all;
  for (std::uint32_t head = 0; head < 512; ++head) {
    for (std::uint32_t const mantissa :
         {0U,        1U,        0xfffU,    0x1000U,   0x1001U,   0x1fffU,   0x2000U,   0x3000U,
          0x7fffU,   0x8000U,   0x8001U,   0x18000U,  0x2aaaaaU, 0x3fffffU, 0x400000U, 0x400001U,
          0x555555U, 0x7fefffU, 0x7ff000U, 0x7f7fffU, 0x7f8000U, 0x7fffffU}) {
      all.push_back(std::bit_cast<float>(head << 23U | mantissa));
    }
  }
  return all;
}

template <class Half>
std::size_t wrong_roundings(std::vector<float> const& values, HalfShape const& shape) {
  std::size_t wrong = 0;
  for (float const value : values) {
    auto const got = Half(value).bits;
    auto const want = reference_bits(value, shape);
    if (got != want && ++wrong < 5) {
      UNSCOPED_INFO(std::hex << std::bit_cast<std::uint32_t>(value) << " became " << got << ", not " << want);
    }
  }
  return wrong;
}

template <class Half>
std::size_t wrong_values(HalfShape const& shape) {
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float const got = static_cast<float>(of_bits<Half>(bits));
    double const want = reference_value(static_cast<std::uint16_t>(bits), shape);
    bool const right = std::isnan(want) ? std::isnan(got)
                                        : static_cast<double>(got) == want && std::signbit(got) == std::signbit(want);
    wrong += right ? 0 : 1;
  }
  return wrong;
}

/// Bits that the conversion to float and back changes: a signalling NaN becomes quiet.
template <class Half>
std::size_t lost(std::uint32_t infinity, std::uint32_t quiet) {
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    std::uint32_t const want = (bits & 0x7fffU) > infinity ? bits | quiet : bits;
    wrong += Half(static_cast<float>(of_bits<Half>(bits))).bits == want ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("dtype: names and sizes", "[unit]") {
  CHECK(cxxrun::size_of(DType::f32) == 4);
  CHECK(cxxrun::size_of(DType::f64) == 8);
  CHECK(cxxrun::size_of(DType::f16) == 2);
  CHECK(cxxrun::size_of(DType::bf16) == 2);
  CHECK(cxxrun::size_of(DType::i32) == 4);
  CHECK(cxxrun::size_of(DType::i64) == 8);
  CHECK(cxxrun::size_of(DType::u8) == 1);
  CHECK(cxxrun::name_of(DType::bf16) == "bf16");
  CHECK(cxxrun::name_of(DType::u8) == "u8");
  CHECK(cxxrun::name_of(ReduceOp::max) == "max");
}

TEST_CASE("dtype: every 16-bit pattern is the value that the format says", "[unit]") {
  CHECK(wrong_values<float16>(kFloat16) == 0);
  CHECK(wrong_values<bfloat16>(kBfloat16) == 0);
}

TEST_CASE("dtype: every 16-bit value survives the way through float", "[unit]") {
  CHECK(lost<float16>(0x7c00, 0x0200) == 0);
  CHECK(lost<bfloat16>(0x7f80, 0x0040) == 0);
}

TEST_CASE("dtype: floats are rounded to nearest, ties to even", "[unit]") {
  CHECK(wrong_roundings<float16>(borders<float16>(), kFloat16) == 0);
  CHECK(wrong_roundings<bfloat16>(borders<bfloat16>(), kBfloat16) == 0);
  CHECK(wrong_roundings<float16>(every_exponent(), kFloat16) == 0);
  CHECK(wrong_roundings<bfloat16>(every_exponent(), kBfloat16) == 0);
}

TEST_CASE("dtype: float16's borders by hand", "[unit]") {
  CHECK(float16(65504.0F).bits == 0x7bff);
  CHECK(float16(65519.99F).bits == 0x7bff);
  CHECK(float16(65520.0F).bits == 0x7c00);  // the tie goes to the even side, which is infinity
  CHECK(float16(-1e30F).bits == 0xfc00);
  CHECK(float16(0x1p-24F).bits == 0x0001);
  CHECK(float16(0x1p-25F).bits == 0x0000);
  CHECK(float16(0x1.8p-24F).bits == 0x0002);
  CHECK(float16(-0.0F).bits == 0x8000);
  CHECK(bfloat16(3.4028235e38F).bits == 0x7f80);
  CHECK(bfloat16(1.00390625F).bits == 0x3f80);
  CHECK(bfloat16(1.01171875F).bits == 0x3f82);
}

TEST_CASE("dtype: no NaN ever becomes a number or infinity, and all come out quiet", "[unit]") {
  for (std::uint32_t const sign : {0U, 0x80000000U}) {
    for (std::uint32_t bit = 0; bit < 23; ++bit) {
      for (std::uint32_t const payload : {1U << bit, 0x7fffffU >> bit, 0x7fffffU & ~(1U << bit)}) {
        if (payload == 0) {
          continue;
        }
        float const nan = std::bit_cast<float>(sign | 0x7f800000U | payload);
        CHECK((float16(nan).bits & 0x7e00U) == 0x7e00U);
        CHECK((bfloat16(nan).bits & 0x7fc0U) == 0x7fc0U);
        CHECK((float16(nan).bits & 0x8000U) == sign >> 16U);
        CHECK((bfloat16(nan).bits & 0x8000U) == sign >> 16U);
      }
    }
  }
}

#ifdef CXXRUN_HAS_FLOAT16
TEST_CASE("dtype: the compiler's own float16 agrees", "[unit]") {
  std::size_t wrong = 0;
  for (auto const& values : {borders<float16>(), borders<bfloat16>(), every_exponent()}) {
    for (float const value : values) {
      bool const same = std::isnan(value) ? std::isnan(static_cast<float>(float16(value)))
                                          : float16(value).bits == compiler_bits(value);
      wrong += same ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}
#endif
