#include <bit>
#include <limits>
#include <vector>

#include "src/runtime/gradient/buckets.hpp"
#include "src/runtime/gradient/memory.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace)

namespace {

template <class T>
std::vector<T> values(std::size_t count) {
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(T(static_cast<float>(i % 16)));
  }
  return all;
}

template <class T>
void check_type() {
  for (std::size_t const count : {0U, 1U, 7U, 8U, 9U, 1000U}) {
    auto data = values<T>(count);
    double squares = 0;
    for (std::size_t i = 0; i < count; ++i) {
      squares += static_cast<double>((i % 16) * (i % 16));
    }
    CHECK(sum_of_squares(dtype_of<T>, data.data(), count) == squares);

    multiply(dtype_of<T>, data.data(), count, 1.5);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(data[i] == T(1.5F * static_cast<float>(i % 16)));
    }
  }
}

}  // namespace

TEST_CASE("elements: products and squares are exact in every type where they can be", "[unit]") {
  check_type<float>();
  check_type<double>();
  check_type<float16>();
  check_type<bfloat16>();
}

TEST_CASE("elements: those of 16 bits are multiplied in f32 and rounded once", "[unit]") {
  for (double const factor : {1.0 / 3.0, 7.0, 1e-6}) {
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
      auto half = std::bit_cast<float16>(static_cast<std::uint16_t>(bits));
      auto brain = std::bit_cast<bfloat16>(static_cast<std::uint16_t>(bits));
      float16 const half_wanted(static_cast<float>(half) * static_cast<float>(factor));
      bfloat16 const brain_wanted(static_cast<float>(brain) * static_cast<float>(factor));
      multiply(DType::f16, &half, 1, factor);
      multiply(DType::bf16, &brain, 1, factor);
      REQUIRE((half == half_wanted && brain == brain_wanted));
    }
  }
}

TEST_CASE("elements: a factor of 0 wipes out infinities and NaNs too", "[unit]") {
  std::vector<float> data{1, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), -1};

  multiply(DType::f32, data.data(), data.size(), 0);

  CHECK(data == std::vector<float>(4, 0.0F));
}

TEST_CASE("elements: a factor that no float is exact to is applied in f64", "[unit]") {
  std::vector<float> data{3, 6, 9, 21};

  multiply(DType::f32, data.data(), data.size(), 1.0 / 3.0);

  CHECK(data == std::vector<float>{1, 2, 3, 7});
}

TEST_CASE("control: totals come back as they went in, whatever the scale", "[unit]") {
  for (int ranks = 1; ranks <= 1000; ++ranks) {
    auto const scale = 1.0F / static_cast<float>(ranks);
    std::vector<float> slots(5);
    ControlSlots const control(DType::f32, slots.data());
    control.write({static_cast<double>(ranks), 1, 0.5 * ranks});
    control.write_used(0, true);
    control.write_used(1, false);
    for (auto& slot : slots) {
      slot *= scale;
    }
    auto const total = control.total(static_cast<double>(scale));
    REQUIRE(total.errors == ranks);
    REQUIRE(total.weighted == 1);
    REQUIRE(total.weight == Approx(0.5 * ranks));
    REQUIRE(control.used(0));
    REQUIRE_FALSE(control.used(1));
  }
}
