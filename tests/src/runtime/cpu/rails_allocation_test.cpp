#include "tests/support/allocations.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rail.hpp"

#ifndef CXXRUN_SANITIZED  // they have an operator new of their own

using namespace cxxrun;

TEST_CASE("a call like one before it allocates nothing") {
  auto const wire = GENERATE(Wire::same, Wire::bf16);
  auto const ends = test::run_rail(3, [&](int node, host::Rails& rails) {
    std::vector<float> data(500'000);
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    std::vector<std::byte const*> const parts(3, bytes);
    std::vector<std::span<std::byte const>> const sends(3, {bytes, 1000});
    std::vector<std::span<std::byte>> const receives(3, {bytes + 4000 * node, 1000});
    comm::Call call;
    call.type = DType::f32;
    call.wire = wire;
    auto const round = [&](std::size_t count) {
      call.count = count;
      call.kind = comm::Kind::all_reduce;
      rails.all_reduce(call, bytes, count, test::patience());
      call.kind = comm::Kind::reduce_scatter;
      rails.reduce_scatter(call, parts, bytes, count, test::patience());
      call.kind = comm::Kind::broadcast;
      rails.broadcast(call, {bytes, count * sizeof(float)}, 1, test::patience());
      call.kind = comm::Kind::all_gather;
      rails.exchange(call, sends, receives, test::patience());
    };
    round(500'000);
    auto const before = test::allocations();
    for (std::size_t const count : {500'000UL, 1000UL, 0UL, 400'001UL, 500'000UL}) {
      round(count);
    }
    auto const after = test::allocations();
    test::meet(rails);  // so that no farewell is counted
    return std::to_string(after - before);
  });
  for (auto const& end : ends) {
    CHECK(end.said == "0");
  }
}

#endif
