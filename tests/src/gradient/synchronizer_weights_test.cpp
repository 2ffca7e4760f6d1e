// GradientSynchronizer: what each rank's gradients count for: weights, micro-batches, parameters that are not used.
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
