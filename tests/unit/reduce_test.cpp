#include "src/comm/reduce.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::DType;
using cxxrun::ReduceOp;
using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)

TEST_CASE("reduce: sums of three, into two outputs, scaled", "[unit]") {
  std::vector<float> a{1, 2, 3};
  std::vector<float> const b{10, 20, 30};
  std::vector<float> c{100, 200, 300};
  std::array<void const*, 3> const inputs{a.data(), b.data(), c.data()};
  std::array<void*, 2> const outputs{c.data(), a.data()};
  reduce(DType::f32, ReduceOp::sum, inputs, outputs, 3, 0.5F);
  CHECK(a == std::vector<float>{55.5F, 111, 166.5F});
  CHECK(c == a);
  CHECK(b == std::vector<float>{10, 20, 30});
}
