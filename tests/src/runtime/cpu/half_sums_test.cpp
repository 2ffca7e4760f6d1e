// Sums of f16 and bf16 over one node and several, compared bit by bit with sums in f32 that are rounded once.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/cpu/node/node_layout.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/half_reference.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun {
namespace {

using comm::Call;
using comm::Kind;
using test::HalfShape;
using test::NodeWorld;

using Halves = std::vector<std::uint16_t>;

struct Shape {
  DType type;
  HalfShape half;
};
constexpr std::array kShapes{Shape{DType::f16, test::kFloat16}, Shape{DType::bf16, test::kBfloat16}};

float value_of(std::uint16_t bits, HalfShape const& half) {
  return static_cast<float>(test::reference_value(bits, half));
}

/// The documented order: the ranks of each node by number, then the sums of the nodes.
std::uint16_t expected(std::vector<Halves> const& by_rank, std::size_t i, std::vector<int> const& sizes, float scale,
                       HalfShape const& half) {
  float sum = 0;
  std::size_t rank = 0;
  for (std::size_t node = 0; node < sizes.size(); ++node) {
    float of_node = value_of(by_rank[rank++][i], half);
    for (int index = 1; index < sizes[node]; ++index) {
      of_node += value_of(by_rank[rank++][i], half);
    }
    sum = node == 0 ? of_node : sum + of_node;
  }
  return test::reference_bits(scale == 1.0F ? sum : sum * scale, half);
}

bool is_nan(std::uint16_t bits, HalfShape const& half) {
  return std::isnan(test::reference_value(bits, half));
}

/// The repeated input of one rank: numbers of every size, some that overflow in pairs and cancel, some that f32 keeps
/// or loses depending on the order of additions, subnormal numbers, zeros of both signs, infinity and NaN.
Halves period_of(int rank, HalfShape const& half) {
  std::mt19937 random(static_cast<unsigned>(rank) * 977U + 5U);
  auto const largest = static_cast<float>(half.mantissa == 10 ? 60000.0 : 3e38);
  auto const bits = [&](float value) { return test::reference_bits(value, half); };
  Halves halves(1000);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    auto const dice = static_cast<unsigned>(random());
    float const sign = rank % 2 == 0 ? 1.0F : -1.0F;
    float const steps = static_cast<float>(static_cast<int>(dice % 4001U) - 2000);
    switch (i % 8) {
      case 0: halves[i] = bits(steps / 128.0F); break;
      case 1: halves[i] = bits(rank < 2 ? largest : -largest); break;
      case 2: halves[i] = bits(largest * sign); break;
      case 3: halves[i] = static_cast<std::uint16_t>(dice % (1U << static_cast<unsigned>(half.mantissa))); break;
      case 4: halves[i] = bits(sign * 0.0F); break;
      case 5: halves[i] = bits(dice % 3 == 0 ? 0.0001F : (dice % 3 == 1 ? 16384.0F : -16384.0F)); break;
      case 6: halves[i] = bits(rank == 0 ? 1.0F : 1.0F / static_cast<float>(1U << (half.mantissa + 1))); break;
      default:
        halves[i] = bits(dice % 5 == 0   ? std::numeric_limits<float>::infinity() * sign
                         : dice % 7 == 0 ? std::numeric_limits<float>::quiet_NaN()
                                         : steps);
    }
  }
  return halves;
}

/// Inputs of all ranks, one period each, and their sums.
struct Sums {
  Shape shape;
  std::vector<int> sizes;
  std::size_t count;  ///< of a rank's elements
  std::vector<Halves> periods{};
  [[nodiscard]] Halves expected_of(float scale) const {
    Halves sums(periods[0].size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = expected(periods, i, sizes, scale, shape.half);
    }
    return sums;
  }
  [[nodiscard]] Halves input_of(int rank) const {
    Halves in(count);
    Halves const& period = periods[static_cast<std::size_t>(rank)];
    for (std::size_t at = 0; at < count; at += period.size()) {
      std::memcpy(&in[at], period.data(), std::min(period.size(), count - at) * sizeof in[0]);
    }
    return in;
  }
};

/// Names the first wrong element, or returns "".
std::string difference(Halves const& out, std::size_t first, Halves const& expected, Shape const& shape) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto const want = expected[(first + i) % expected.size()];
    if (out[i] != want && !(is_nan(out[i], shape.half) && is_nan(want, shape.half))) {
      return "element " + std::to_string(first + i) + " of " + std::string(name_of(shape.type)) + " is " +
             std::to_string(test::reference_value(out[i], shape.half)) + " instead of " +
             std::to_string(test::reference_value(want, shape.half));
    }
  }
  return "";
}

/// Both reductions, as a sum and as a mean; in place in the arena, and from other memory.
std::string every_sum(host::Backend& backend, int rank, Sums const& sums, std::byte* arena) {
  auto const world = sums.periods.size();
  Halves in = sums.input_of(rank);
  for (float const scale : {1.0F, 1.0F / static_cast<float>(world)}) {
    Halves const expected = sums.expected_of(scale);
    for (auto const& [kind, in_arena] : {std::pair{Kind::all_reduce, true}, std::pair{Kind::all_reduce, false},
                                         std::pair{Kind::reduce_scatter, true}}) {
      Halves out(kind == Kind::all_reduce ? in.size() : in.size() / world);
      std::memcpy(arena, in.data(), in.size() * sizeof in[0]);
      Call call{.kind = kind, .type = sums.shape.type, .count = out.size(), .scale = scale};
      call.in = in_arena ? static_cast<void*>(arena) : in.data();
      call.out = in_arena ? static_cast<void*>(arena) : out.data();
      backend.run(call);
      if (in_arena) {
        std::memcpy(out.data(), arena, out.size() * sizeof out[0]);
      }
      std::size_t const first = kind == Kind::all_reduce ? 0 : static_cast<std::size_t>(rank) * out.size();
      if (auto wrong = difference(out, first, expected, sums.shape); !wrong.empty()) {
        return "rank " + std::to_string(rank) + ", " + comm::describe(call) + ": " + wrong;
      }
    }
  }
  return "";
}

/// `count` elements of `period(rank, half)` on nodes of these sizes.
template <class Period>
void try_sums(std::vector<int> const& sizes, std::vector<std::size_t> const& counts, Period const& period) {
  NodeWorld node(sizes);
  INFO(sizes.size() << " nodes, " << node.ranks() << " ranks");
  auto const ends = test::run_ranks(node.ranks(), [&](int rank) -> std::string {
    auto const backend = node.join(rank);
    std::byte* const arena = backend->allocate(4 * host::kPieceBytes);
    std::string wrong;
    for (Shape const& shape : kShapes) {
      Sums sums{shape, sizes, 0};
      for (int r = 0; r < node.ranks(); ++r) {
        sums.periods.push_back(period(r, shape.half));
      }
      for (std::size_t const count : counts) {
        sums.count = count * sums.periods.size();
        wrong = wrong.empty() ? every_sum(*backend, rank, sums, arena) : wrong;
      }
    }
    return wrong;
  });
  for (auto const& end : ends) {
    CHECK(end.said == "");
    CHECK(end.status == 0);
  }
}

}  // namespace

TEST_CASE("half sums are f32 sums rounded once, on one node and on several, whatever the numbers") {
  // In the slots; larger; several windows of staging memory, and blocks of a rail that end in the middle.
  constexpr std::size_t kLarge = host::kPieceBytes / 4 + 40;
  for (auto const& sizes :
       {std::vector{4}, std::vector{2, 2}, std::vector{1, 1, 1}, std::vector{1, 3}, std::vector{3, 1, 2}}) {
    try_sums(sizes, {8, 1200, kLarge}, period_of);
  }
}

TEST_CASE("half sums that leave the type's range inside a node come back into it") {
  // 60000 + 60000 - 60000 - 60000; means of 10000s over nodes of eight, whose sums are 80000 each; nodes of different
  // sizes.
  auto const all = [](float value, HalfShape const& half) { return Halves(64, test::reference_bits(value, half)); };
  try_sums({2, 2}, {16}, [&](int rank, HalfShape const& half) { return all(rank < 2 ? 60000.0F : -60000.0F, half); });
  try_sums({8, 8}, {16}, [&](int /*rank*/, HalfShape const& half) { return all(10000.0F, half); });
  try_sums({4, 3, 1}, {16}, [&](int /*rank*/, HalfShape const& half) { return all(40000.0F, half); });
}

}  // namespace cxxrun
