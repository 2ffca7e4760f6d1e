// GradientSynchronizer: how much each rank's gradients count: weights, micro-batches, unused parameters.
#include <algorithm>
#include <cmath>

#include "tests/support/catch.hpp"
#include "tests/support/sync_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("synchronizer: with average off the sum stays, and scale() makes it a mean", "[process]") {
  SyncWorld const world{3};
  CHECK(world.run([&](int rank) {
    auto comm = world.join(rank);
    auto options = small_buckets();
    options.average = false;
    GradientSynchronizer sync(comm, mixed_parameters(), options);
    backward<float>(sync, 0, rank, shuffled(sync.size(), 1));
    sync.wait();
    auto const uniform = wrong<float>(sync, 0, 12) + std::to_string(sync.scale());
    sync.set_weight(rank + 2);  // 2 * 2 + 3 * 4 + 4 * 6
    backward<float>(sync, 1, rank, shuffled(sync.size(), 1));
    sync.wait();
    return uniform + " " + wrong<float>(sync, 1, 40) + std::to_string(9 * sync.scale());
  }) == "0.333333 1.000000");
}

TEST_CASE("synchronizer: weights make it the mean over all samples", "[process]") {
  for (int const ranks : {1, 2, 4}) {
    SyncWorld const world{ranks};
    INFO(ranks << " ranks");
    CHECK(world.run([&](int rank) -> std::string {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
      int const weights[] = {ranks == 1 ? 8 : 3, 5, 0, 8};  // 8 or 16 samples
      int const mean[] = {0, 2 * 8, 3 * 2 + 5 * 4, 0, (3 * 2 + 5 * 4 + 8 * 8) / 2};
      for (std::size_t step = 0; step < 3; ++step) {
        sync.set_weight(weights[rank]);
        for (auto const i : shuffled(sync.size(), 5)) {
          fill<float>(sync, step, i, 8 * 2 * (rank + 1));
          sync.mark_ready(i);
        }
        sync.wait();
        if (auto const text = wrong<float>(sync, step, mean[ranks]); ranks > 1 && !text.empty()) {
          return text;
        }
        backward<float>(sync, step, rank, shuffled(sync.size(), 6));  // the next step has no weights again
        sync.wait();
        if (auto const text = wrong<float>(sync, step, ranks + 1); !text.empty()) {
          return text;
        }
      }
      return "right";
    }) == "right");
  }
}

TEST_CASE("synchronizer: weights whose reciprocals are no floats are right to the last places", "[process]") {
  SyncWorld const world{3};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"w", 1000}}, {});
    double const weights[] = {7, 0.5, 100};
    sync.set_weight(weights[rank]);
    auto const mine = sync.gradient<float>(0);
    for (std::size_t k = 0; k < mine.size(); ++k) {
      mine[k] = std::sin(static_cast<float>(k) + static_cast<float>(rank));
    }
    sync.mark_ready(0);
    sync.wait();
    for (std::size_t k = 0; k < mine.size(); ++k) {
      double sum = 0;
      double size = 0;
      for (int r = 0; r < 3; ++r) {
        auto const part = weights[r] * static_cast<double>(std::sin(static_cast<float>(k) + static_cast<float>(r)));
        sum += part;
        size += std::abs(part);
      }
      if (std::abs(static_cast<double>(sync.gradient<float>(0)[k]) - sum / 107.5) > 4e-7 * size / 107.5) {
        return "element " + std::to_string(k) + " is off";
      }
    }
    return "right";
  }) == "right");
}

TEST_CASE("synchronizer: 16-bit gradients times weights are in range, from the first weighted step on", "[process]") {
  for (char const* const nodes : {"aa", "ab", "aab", "abc"}) {
    int const ranks = static_cast<int>(std::string(nodes).size());
    SyncWorld const world{ranks, nodes};
    INFO(nodes);
    CHECK(world.run([&](int rank) -> std::string {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, {{"a", 3000, DType::f16}, {"b", 50, DType::bf16}, {"c", 77, DType::f16}},
                                small_buckets());
      auto const value = [](int r) { return static_cast<float>(r == 1 ? 1536 : 3072); };
      for (int step = 0; step < 6; ++step) {
        bool const weighted = step != 4;
        // Batches that are alike, one that is twice as large, the small last ones, none, and again the usual ones.
        auto const weight = [&](int r) { return step == 4 ? 1 : step == 3 ? 2 : step == 2 && r == 1 ? 64 : 32; };
        if (weighted) {
          sync.set_weight(weight(rank));
        }
        float sum = 0;
        float weights = 0;
        for (int r = 0; r < ranks; ++r) {
          sum += static_cast<float>(weight(r)) * value(r);
          weights += static_cast<float>(weight(r));
        }
        for (auto const i : shuffled(sync.size(), static_cast<unsigned>(step))) {
          if (i == 1) {
            std::ranges::fill(sync.gradient<bfloat16>(i), bfloat16(value(rank)));
          } else {
            std::ranges::fill(sync.gradient<float16>(i), float16(value(rank)));
          }
          sync.mark_ready(i);
        }
        sync.wait();
        auto const is_mean = [&](auto const& gradient) {
          return std::ranges::all_of(gradient, [&](auto each) { return static_cast<float>(each) == sum / weights; });
        };
        if (!is_mean(sync.gradient<float16>(0)) || !is_mean(sync.gradient<bfloat16>(1)) ||
            !is_mean(sync.gradient<float16>(2))) {
          return "wrong in step " + std::to_string(step);
        }
      }
      return "right";
    }) == "right");
  }
}

TEST_CASE("synchronizer: with average off, weighted sums of f16 are in range, and scale() makes them means",
          "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"a", 100, DType::f16}}, {.average = false});
    for (int step = 0; step < 2; ++step) {
      sync.set_weight(rank == 0 ? 1000 : 3000);
      std::ranges::fill(sync.gradient<float16>(0), float16(rank == 0 ? 1024.0F : 2048.0F));
      sync.mark_ready(0);
      sync.wait();
      auto const sum = static_cast<double>(static_cast<float>(sync.gradient<float16>(0)[99]));
      if (std::abs(sum * sync.scale() - 1792) > 1) {
        return std::to_string(sum) + " times " + std::to_string(sync.scale());
      }
    }
    return "right";
  }) == "right");
}

TEST_CASE("synchronizer: a rank without samples need not mark, and what it holds does not count", "[process]") {
  SyncWorld const world{2};
  CHECK(world
            .run([&](int rank) {
              auto comm = world.join(rank);
              GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
              sync.set_weight(rank == 0 ? 0 : 4);
              for (std::size_t i = 0; i < sync.size(); ++i) {
                if (rank == 0) {
                  std::ranges::fill(sync.gradient<float>(i), std::nanf(""));
                } else {
                  fill<float>(sync, 0, i, 6);
                  sync.mark_ready(i);
                }
              }
              sync.wait();
              return wrong<float>(sync, 0, 6);
            })
            .empty());
}

TEST_CASE("synchronizer: inside no_sync gradients accumulate on each rank", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
    std::string text;
    for (std::size_t step = 0; step < 3; ++step) {
      {
        auto const outer = sync.no_sync();
        {
          auto const inner = sync.no_sync();
          backward<float>(sync, step, rank, shuffled(sync.size(), 1));
          sync.wait();
        }
        sync.wait();
        text += wrong<float>(sync, step, 2 * (rank + 1));
      }
      for (std::size_t i = 0; i < sync.size(); ++i) {
        for (auto& value : sync.gradient<float>(i)) {
          value *= 2;  // the second micro-batch has the same gradients
        }
        sync.mark_ready(i);
      }
      sync.wait();
      text += wrong<float>(sync, step, 6);
    }
    return text + std::to_string(sync.stats().steps);
  }) == "3");
}

TEST_CASE("synchronizer: unused gradients count as zero, and all ranks know who was used", "[process]") {
  for (int const ranks : {1, 2}) {
    SyncWorld const world{ranks};
    CHECK(world.run([&](int rank) {
      auto comm = world.join(rank);
      auto options = small_buckets();
      options.find_unused = true;
      GradientSynchronizer sync(comm, mixed_parameters(), options);
      std::string text;
      for (std::size_t step = 0; step < 3; ++step) {
        for (std::size_t i = 0; i < sync.size(); ++i) {
          fill<float>(sync, step, i, 2);
          if (i != 3 && (i != 4 || rank == 0)) {  // 3: nobody; 4: only rank 0
            sync.mark_ready(i);
          }
        }
        sync.wait();
        for (std::size_t i = 0; i < sync.size(); ++i) {
          text += wrong<float>(sync, step, i, i == 3 ? 0 : i == 4 ? 2 / ranks : 2);
        }
        text += std::string(sync.used(2) ? "2" : "") + (sync.used(3) ? "3" : "") + (sync.used(4) ? "4" : "") + " ";
      }
      return text;
    }) == "24 24 24 ");
  }
}

TEST_CASE("synchronizer: what was accumulated inside no_sync is not lost when the last batch does not use it",
          "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"a", 10}, {"b", 10}}, {.find_unused = true});
    {
      auto const local = sync.no_sync();
      fill<float>(sync, 0, 0, 2 * rank);
      sync.mark_ready(0);
    }
    fill<float>(sync, 0, 1, 2 * rank);
    sync.mark_ready(1);
    sync.wait();
    return wrong<float>(sync, 0, 1) + (sync.used(0) ? "used" : "unused");
  }) == "used");
}
