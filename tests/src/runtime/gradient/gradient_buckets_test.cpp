#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "src/runtime/gradient/buckets.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace)

namespace {

constexpr ControlNeeds kThreeSlots{3, true};

std::vector<Parameter> of_counts(std::vector<std::size_t> const& counts, DType type = DType::f32) {
  std::vector<Parameter> parameters;
  for (auto const count : counts) {
    parameters.push_back({"p" + std::to_string(parameters.size()), count, type});
  }
  return parameters;
}

std::vector<Parameter> any_parameters(std::mt19937& random, std::size_t number) {
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
  std::vector<Parameter> parameters;
  for (std::size_t i = 0; i < number; ++i) {
    auto const magnitude = random() % 14;
    parameters.push_back({"p" + std::to_string(i), random() % (std::size_t{1} << magnitude), kTypes[random() % 4]});
  }
  return parameters;
}

/// Places in memory order: first byte, and the byte after the padding.
std::vector<std::pair<std::size_t, std::size_t>> extents(Layout const& layout) {
  std::vector<std::pair<std::size_t, std::size_t>> all;
  for (auto const& place : layout.places) {
    all.emplace_back(place.offset, place.offset + place.bytes);
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool covers_everything_once(Layout const& layout, std::vector<Parameter> const& parameters, std::size_t arena) {
  std::size_t gradients = 0;
  std::size_t end = 0;
  for (auto const& bucket : layout.buckets) {
    bool const apart = bucket.offset == end && bucket.bytes % Arena::kAlignment == 0;
    if (!apart) {
      return false;
    }
    end = bucket.offset + elements_of(bucket) * size_of(bucket.type);
    gradients += bucket.gradients;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto const& place = layout.places[i];
    auto const& bucket = layout.buckets[place.bucket];
    bool const inside = place.offset % Arena::kAlignment == 0 && place.offset >= bucket.offset &&
                        place.offset + place.bytes <= bucket.offset + bucket.bytes &&
                        place.bytes == parameters[i].count * size_of(parameters[i].type) &&
                        bucket.type == parameters[i].type;
    if (!inside) {
      return false;
    }
  }
  auto const all = extents(layout);
  bool const disjoint = std::adjacent_find(all.begin(), all.end(), [](auto const& a, auto const& b) {
                          return a.second > b.first;
                        }) == all.end();
  return disjoint && gradients == parameters.size() && end <= arena;
}

}  // namespace

TEST_CASE("buckets: every layout has every gradient once, apart from all others, inside the arena", "[unit]") {
  std::mt19937 random(7);
  for (std::size_t const number : {1U, 2U, 3U, 10U, 100U, 1000U, 10'000U}) {
    for (int turn = 0; turn < 5; ++turn) {
      auto const parameters = any_parameters(random, number);
      auto order = reverse_order(number);
      std::shuffle(order.begin(), order.end(), random);
      ControlNeeds const control{3 + (turn % 2 == 0 ? number : 0), turn % 3 == 0};
      BucketLimits const limits{random() % 100'000, random() % 1'000'000};

      auto const layout = make_layout(parameters, order, limits, control);

      INFO(number << " parameters, turn " << turn);
      REQUIRE(covers_everything_once(layout, parameters, arena_bytes(parameters, control)));
    }
  }
}

TEST_CASE("buckets: the last parameter comes first, in a first bucket that is small", "[unit]") {
  auto const parameters = of_counts({256, 256, 256, 256, 256});  // 1024 bytes each

  auto const layout = make_layout(parameters, reverse_order(5), {1024, 2048}, kThreeSlots);

  CHECK(layout.buckets == std::vector<Bucket>{{DType::f32, 0, 1024, 0, 1},
                                              {DType::f32, 1024, 2048, 0, 2},
                                              {DType::f32, 3072, 2048, 3, 2}});
  CHECK(layout.places[4] == Place{0, 0, 1024});
  CHECK(layout.places[0] == Place{2, 4096, 1024});
  CHECK(control_offset(layout) == 5120);
}

TEST_CASE("buckets: a gradient larger than a bucket has one of its own", "[unit]") {
  auto const parameters = of_counts({16, 10'000, 16});

  auto const layout = make_layout(parameters, reverse_order(3), {1024, 2048}, kThreeSlots);

  REQUIRE(layout.buckets.size() == 3);
  CHECK(layout.buckets[1].gradients == 1);
  CHECK(layout.places[1].bucket == 1);
}

TEST_CASE("buckets: types have buckets of their own, launched by when their last gradient comes", "[unit]") {
  std::vector<Parameter> const parameters{
      {"a", 8, DType::f32}, {"b", 8, DType::bf16}, {"c", 8, DType::f32}, {"d", 8, DType::bf16}};

  auto const layout = make_layout(parameters, reverse_order(4), {1024, 1024}, kThreeSlots);

  REQUIRE(layout.buckets.size() == 2);
  CHECK(layout.buckets[0].type == DType::bf16);  // complete with b, one before a
  CHECK(layout.buckets[1].type == DType::f32);
}

TEST_CASE("buckets: control values have an f64 bucket where the last one cannot hold them", "[unit]") {
  auto const halves = make_layout(of_counts({8}, DType::f16), reverse_order(1), {1024, 1024}, kThreeSlots);
  CHECK(halves.buckets.back() == Bucket{DType::f64, 128, 0, 3, 0});

  auto const compressed = make_layout(of_counts({8}), reverse_order(1), {1024, 1024}, {3, false});
  CHECK(compressed.buckets.back() == Bucket{DType::f64, 128, 0, 3, 0});

  auto const doubles = make_layout(of_counts({8}, DType::f64), reverse_order(1), {1024, 1024}, {3, false});
  CHECK(doubles.buckets == std::vector<Bucket>{{DType::f64, 0, 128, 3, 1}});

  CHECK(make_layout({}, {}, {1024, 1024}, kThreeSlots).buckets == std::vector<Bucket>{{DType::f64, 0, 0, 3, 0}});
}

TEST_CASE("buckets: an observed order is completed with what was not seen", "[unit]") {
  std::vector<std::uint32_t> const seen{4, 1};
  CHECK(completed_order(seen, reverse_order(5)) == std::vector<std::uint32_t>{4, 1, 3, 2, 0});
  CHECK(completed_order({}, reverse_order(3)) == reverse_order(3));
}

TEST_CASE("buckets: gradients without elements are placed and counted", "[unit]") {
  auto const parameters = of_counts({0, 4, 0});

  auto const layout = make_layout(parameters, reverse_order(3), {1024, 1024}, kThreeSlots);

  CHECK(layout.buckets == std::vector<Bucket>{{DType::f32, 0, 128, 3, 3}});
}

TEST_CASE("buckets: moves within the arena bring every gradient and its padding to another layout") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    auto const parameters = any_parameters(random, 1 + random() % 40);
    auto order = reverse_order(parameters.size());
    BucketLimits const limits{random() % 3000, 1 + random() % 20000};
    auto const from = make_layout(parameters, order, limits, kThreeSlots);
    std::shuffle(order.begin(), order.end(), random);
    auto const to = make_layout(parameters, order, limits, kThreeSlots);
    std::size_t const end = arena_bytes(parameters, kThreeSlots);
    std::size_t const room = 2 * Arena::kAlignment * (1 + random() % 60);
    std::vector<int> arena(end + room, -1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::fill_n(arena.begin() + static_cast<std::ptrdiff_t>(from.places[i].offset), aligned(from.places[i].bytes), 0);
      std::iota(arena.begin() + static_cast<std::ptrdiff_t>(from.places[i].offset),
                arena.begin() + static_cast<std::ptrdiff_t>(from.places[i].offset + from.places[i].bytes),
                static_cast<int>(1 + i * 100'000));
    }
    for (auto const& [start, target, bytes] : plan_moves(from, to, end, room)) {
      bool const apart = start + bytes <= target || target + bytes <= start;
      REQUIRE((apart && std::max(start, target) + bytes <= end + room));
      std::copy_n(arena.begin() + static_cast<std::ptrdiff_t>(start), bytes,
                  arena.begin() + static_cast<std::ptrdiff_t>(target));
    }
    bool right = true;  // told once a round: millions of numbers are compared
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      for (std::size_t k = 0; k < aligned(to.places[i].bytes); ++k) {
        int const want = k < to.places[i].bytes ? static_cast<int>(1 + i * 100'000 + k) : 0;
        right = right && arena[to.places[i].offset + k] == want;
      }
    }
    REQUIRE(right);
  }
}
