#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "src/runtime/gradient/ready.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace)

namespace {

/// `number` gradients of 128 bytes, `per_bucket` in each bucket, in reverse order.
Layout even_layout(std::size_t number, std::size_t per_bucket) {
  std::vector<Parameter> const parameters(number, Parameter{"p", 32, DType::f32});
  return make_layout(parameters, reverse_order(number), {128 * per_bucket, 128 * per_bucket}, {3, true});
}

struct Marker {
  ReadyTracker& tracker;
  std::vector<std::size_t> launched{};

  void mark(std::size_t parameter) {
    if (tracker.claim(parameter) && tracker.complete(parameter)) {
      tracker.launch_ready([&](std::size_t bucket) { launched.push_back(bucket); });
    }
  }
};

}  // namespace

TEST_CASE("ready: a bucket is launched with its last gradient, and not before the bucket in front of it", "[unit]") {
  ReadyTracker tracker(6);
  tracker.use(even_layout(6, 2));  // buckets {5, 4}, {3, 2}, {1, 0}
  tracker.begin_step();
  Marker marker{tracker};

  marker.mark(2);
  marker.mark(3);
  CHECK(marker.launched.empty());
  marker.mark(5);
  CHECK(marker.launched.empty());
  marker.mark(4);
  CHECK(marker.launched == std::vector<std::size_t>{0, 1});
  marker.mark(0);
  CHECK_FALSE(tracker.all_launched());
  marker.mark(1);
  CHECK(marker.launched == std::vector<std::size_t>{0, 1, 2});
  CHECK(tracker.all_launched());
}

TEST_CASE("ready: a second claim in the same step is refused, one in the next step is not", "[unit]") {
  ReadyTracker tracker(2);
  tracker.use(even_layout(2, 1));
  tracker.begin_step();

  CHECK(tracker.claim(1));
  CHECK_FALSE(tracker.claim(1));
  CHECK(tracker.marked(1));
  CHECK_FALSE(tracker.marked(0));
  tracker.begin_step();
  CHECK_FALSE(tracker.marked(1));
  CHECK(tracker.claim(1));
}

TEST_CASE("ready: the order of claims is written down when asked for, in each step anew", "[unit]") {
  ReadyTracker tracker(4);
  tracker.use(even_layout(4, 2));
  tracker.record(true);
  tracker.begin_step();
  Marker marker{tracker};

  marker.mark(2);
  marker.mark(0);
  marker.mark(2);
  CHECK(std::vector<std::uint32_t>(tracker.seen().begin(), tracker.seen().end()) == std::vector<std::uint32_t>{2, 0});
  tracker.begin_step();
  CHECK(tracker.seen().empty());
  tracker.record(false);
  marker.mark(1);
  CHECK(tracker.seen().empty());
}

TEST_CASE("ready: a bucket without gradients follows the one in front of it", "[unit]") {
  std::vector<Parameter> const parameters{{"half", 8, DType::f16}};
  ReadyTracker tracker(1);
  tracker.use(make_layout(parameters, reverse_order(1), {1024, 1024}, {3, true}));
  tracker.begin_step();
  Marker marker{tracker};

  marker.mark(0);
  CHECK(marker.launched == std::vector<std::size_t>{0, 1});
}

TEST_CASE("ready: threads that mark in any order launch every bucket once, in order, with all its data", "[unit]") {
  constexpr std::size_t kParameters = 600;
  constexpr std::size_t kThreads = 4;
  ReadyTracker tracker(kParameters);
  auto const layout = even_layout(kParameters, 7);
  tracker.use(layout);
  tracker.record(true);
  std::mt19937 random(3);
  std::vector<std::uint64_t> values(kParameters);  // plain: what launch() reads must have been written before
  for (std::uint64_t step = 1; step <= 60; ++step) {
    tracker.begin_step();
    auto order = reverse_order(kParameters);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::size_t> launched;  // plain: launches are one at a time
    std::size_t stale = 0;
    auto const launch = [&](std::size_t bucket) {
      launched.push_back(bucket);
      for (std::size_t i = 0; i < kParameters; ++i) {
        stale += layout.places[i].bucket == bucket && values[i] != step ? 1 : 0;
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t k = t; k < kParameters; k += kThreads) {
          values[order[k]] = step;
          if (tracker.claim(order[k]) && tracker.complete(order[k])) {
            tracker.launch_ready(launch);
          }
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    std::vector<std::size_t> expected(layout.buckets.size());
    std::iota(expected.begin(), expected.end(), std::size_t{0});
    REQUIRE(launched == expected);
    REQUIRE(stale == 0);
    std::vector<std::uint32_t> seen(tracker.seen().begin(), tracker.seen().end());
    std::sort(seen.begin(), seen.end());
    std::sort(order.begin(), order.end());
    REQUIRE(seen == order);
  }
}
