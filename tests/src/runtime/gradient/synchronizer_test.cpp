// GradientSynchronizer: results.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/sync_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// Some steps with another order of marks on every rank and in every step.
template <class T>
std::string means(SyncWorld const& world, int rank, GradientSynchronizer::Options const& options) {
  auto comm = world.join(rank);
  GradientSynchronizer sync(comm, mixed_parameters(dtype_of<T>), options);
  for (std::size_t step = 0; step < 4; ++step) {
    backward<T>(sync, step, rank,
                shuffled(sync.size(), static_cast<unsigned>(step * 10) + static_cast<unsigned>(rank)));
    sync.wait();
    if (auto const text = wrong<T>(sync, step, world.ranks + 1); !text.empty()) {
      return text;
    }
  }
  comm.barrier();
  return "right";
}

std::uint64_t bits(double value) {
  std::uint64_t same = 0;
  std::memcpy(&same, &value, sizeof same);
  return same;
}

}  // namespace

TEST_CASE("synchronizer: gradients become means, in every type, whatever the order of marks", "[process]") {
  for (int const ranks : {1, 2, 3, 4}) {
    SyncWorld const world{ranks};
    INFO(ranks << " ranks");
    CHECK(world.run([&](int rank) { return means<float>(world, rank, small_buckets()); }) == "right");
    CHECK(world.run([&](int rank) { return means<double>(world, rank, small_buckets()); }) == "right");
    CHECK(world.run([&](int rank) { return means<float16>(world, rank, small_buckets()); }) == "right");
    CHECK(world.run([&](int rank) { return means<bfloat16>(world, rank, small_buckets()); }) == "right");
    CHECK(world.run([&](int rank) { return means<float>(world, rank, {}); }) == "right");
  }
}

TEST_CASE("synchronizer: means of f64 are as precise as f64, also where 1/world is no float", "[process]") {
  for (bool const weighted : {false, true}) {
    SyncWorld const world{3};
    CHECK(world.run([&](int rank) -> std::string {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, {{"a", 100}, {"b", 100, DType::f64}}, {});
      for (int step = 0; step < 2; ++step) {
        std::ranges::fill(sync.gradient<float>(0), static_cast<float>(rank));
        std::ranges::fill(sync.gradient<double>(1), rank);
        if (weighted) {
          sync.set_weight(8);
        }
        sync.mark_ready(1);
        sync.mark_ready(0);
        sync.wait();
        for (double const mean : sync.gradient<double>(1)) {
          if (std::abs(mean - 1) > 1e-15) {
            return std::to_string(mean - 1);
          }
        }
      }
      return "right";
    }) == "right");
  }
}

TEST_CASE("synchronizer: the same between nodes, whatever the wire format", "[process]") {
  for (auto const* const nodes : {"ab", "aabb", "abc"}) {
    SyncWorld const world{static_cast<int>(std::strlen(nodes)), nodes};
    for (auto const wire : {Wire::same, Wire::bf16, Wire::f16}) {
      auto options = small_buckets();
      options.wire = wire;
      options.find_unused = wire == Wire::f16;
      INFO(nodes);
      CHECK(world.run([&](int rank) { return means<float>(world, rank, options); }) == "right");
    }
    CHECK(world.run([&](int rank) { return means<bfloat16>(world, rank, small_buckets()); }) == "right");
  }
}

TEST_CASE("synchronizer: types may be mixed", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"a", 100, DType::f32}, {"b", 100, DType::bf16}, {"c", 100, DType::f64}}, {});
    for (std::size_t step = 0; step < 3; ++step) {
      fill<double>(sync, step, 2, 2 * rank);
      sync.mark_ready(2);
      fill<float>(sync, step, 0, 2 * rank);
      sync.mark_ready(0);
      fill<bfloat16>(sync, step, 1, 2 * rank);
      sync.mark_ready(1);
      sync.wait();
      auto const text =
          wrong<float>(sync, step, 0, 1) + wrong<bfloat16>(sync, step, 1, 1) + wrong<double>(sync, step, 2, 1);
      if (!text.empty()) {
        return text;
      }
    }
    return "right";
  }) == "right");
}

TEST_CASE("synchronizer: several threads may mark at once", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, std::vector<Parameter>(mixed_parameters()), small_buckets());
    for (std::size_t step = 0; step < 50; ++step) {
      auto const order = shuffled(sync.size(), static_cast<unsigned>(2 * step) + static_cast<unsigned>(rank));
      std::vector<std::thread> threads;
      for (std::size_t t = 0; t < 3; ++t) {
        threads.emplace_back([&, t] {
          for (std::size_t k = t; k < order.size(); k += 3) {
            fill<float>(sync, step, order[k], 2 * (rank + 1));
            sync.mark_ready(order[k]);
          }
        });
      }
      for (auto& thread : threads) {
        thread.join();
      }
      sync.wait();
      if (auto const text = wrong<float>(sync, step, 3); !text.empty()) {
        return text;
      }
    }
    return "right";
  }) == "right");
}

TEST_CASE("synchronizer: the order that rank 0 saw becomes everybody's, and values move with it", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
    auto const forward = [&](std::size_t step) {
      for (std::uint32_t i = 0; i < sync.size(); ++i) {
        fill<float>(sync, step, i, 2 * (rank + 1));
        sync.mark_ready(i);
      }
      sync.wait();
    };
    auto const* const before = sync.gradient_data(0);
    forward(0);
    if (auto const text = wrong<float>(sync, 0, 3); !text.empty() || sync.gradient_data(0) >= sync.gradient_data(9)) {
      return "after the move " + text;
    }
    auto const* const after = sync.gradient_data(0);
    forward(1);
    auto const& buckets = sync.stats().buckets;
    bool const early = buckets.front().launched <= buckets.back().ready;  // the first did not wait for the last mark
    return wrong<float>(sync, 1, 3) + (before != after && after == sync.gradient_data(0) && early ? "moved once" : "");
  }) == "moved once");
}

TEST_CASE("synchronizer: padding stays zero and the norm is that of the gradients", "[process]") {
  for (int const ranks : {1, 2, 3}) {
    SyncWorld const world{ranks};
    auto const said = world.run([&](int rank) {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
      std::string text;
      for (std::size_t step = 0; step < 2; ++step) {
        backward<float>(sync, step, rank, shuffled(sync.size(), 1));
        sync.wait();
        double squares = 0;
        for (std::size_t i = 0; i < sync.size(); ++i) {
          for (float const value : sync.gradient<float>(i)) {
            squares += static_cast<double>(value) * static_cast<double>(value);
          }
        }
        double const norm = sync.gradient_norm();
        text += norm == std::sqrt(squares) ? std::to_string(bits(norm)) + " " : "wrong";
      }
      return text;
    });
    INFO(said);
    CHECK(said.find("wrong") == std::string::npos);
    CHECK(said.find('[') == std::string::npos);  // the same bits on all ranks
  }
}

TEST_CASE("synchronizer: gradients are clipped by their common norm, and what is not finite is told to all",
          "[process]") {
  SyncWorld const world{2};
  auto const said = world.run([&](int rank) {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"a", 3}, {"b", 4, DType::f64}, {"c", 9, DType::bf16}}, small_buckets());
    auto const step = [&](float a, double b) {  // means; c is zero
      std::ranges::fill(sync.gradient<float>(0), a);
      std::ranges::fill(sync.gradient<double>(1), b);
      std::ranges::fill(sync.gradient<bfloat16>(2), bfloat16(0.0F));
      for (std::size_t const i : {2, 1, 0}) {
        sync.mark_ready(i);
      }
      sync.wait();
      double squares = -1;
      sync.squared_norm(&squares, {});
      double const norm = sync.clip_gradients(2);
      if (std::isfinite(norm) ? std::abs(squares - norm * norm) > 1e-9 : std::isfinite(squares)) {
        return "the square is " + std::to_string(squares) + " ";
      }
      return std::to_string(norm) + ":" + std::to_string(sync.gradient<float>(0)[2]) + "," +
             std::to_string(sync.gradient<double>(1)[3]) + " ";
    };
    std::string text = step(0, 2) + step(1, 0.5) + step(4, 6.5);  // norms of 4, 2 and sqrt(217)
    text += step(rank == 1 ? INFINITY : 1, 0.25);
    try {
      (void)sync.clip_gradients(0);
    } catch (Failure const& failure) {
      text += std::string(failure.what()).substr(std::string(failure.what()).find(": "));
    }
    return text;
  });
  CHECK(said ==
        "4.000000:0.000000,1.000000 2.000000:1.000000,0.500000 14.730920:0.543075,0.882498 inf:inf,0.250000 "
        ": clip_gradients(0.000000): give the largest norm that is allowed, more than 0");
}

TEST_CASE("synchronizer: broadcast makes every rank's tensors those of the root", "[process]") {
  SyncWorld const world{3};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {{"w", 1}}, {});
    std::vector<std::vector<std::uint8_t>> data;
    std::vector<Tensor> tensors;
    for (std::size_t const count : {3, 0, 100'000, 300'000, 1, 5'000'000, 200'000}) {
      data.emplace_back(count, static_cast<std::uint8_t>(rank + static_cast<int>(tensors.size())));
      tensors.push_back({data.back().data(), count, DType::u8});
    }
    std::vector<double> state(60'000, rank);
    for (int copies = 0; copies < 12; ++copies) {  // more than one parcel
      tensors.push_back({state.data() + 5000 * copies, 5000, DType::f64});
    }
    sync.broadcast(tensors, 2);
    for (std::size_t t = 0; t < data.size(); ++t) {
      if (std::ranges::any_of(data[t], [&](auto value) { return value != 2 + t; })) {
        return "tensor " + std::to_string(t);
      }
    }
    return std::ranges::all_of(state, [](auto value) { return value == 2; }) ? "right" : "state";
  }) == "right");
}

TEST_CASE("synchronizer: stats tell buckets in launch order, each ready, launched and done in turn", "[process]") {
  for (int const ranks : {1, 2}) {
    SyncWorld const world{ranks};
    CHECK(world.run([&](int rank) -> std::string {
      auto comm = world.join(rank);
      GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
      for (std::size_t step = 0; step < 3; ++step) {
        backward<float>(sync, step, rank, shuffled(sync.size(), 1));
        sync.wait();
      }
      auto const& stats = sync.stats();
      std::size_t bytes = 0;
      std::chrono::nanoseconds before{};
      for (auto const& bucket : stats.buckets) {
        bytes += bucket.bytes;
        if (bucket.launched < before || bucket.ready > bucket.launched || bucket.done < bucket.launched) {
          return "out of turn";
        }
        before = bucket.launched;
      }
      bool const sane = stats.steps == 3 && stats.buckets.size() > 3 && stats.exposed.count() > 0;
      return sane && bytes >= 8485 * sizeof(float) ? "sane" : "bytes " + std::to_string(bytes);
    }) == "sane");
  }
}

TEST_CASE("synchronizer: without parameters a step is still a step", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) {
    auto comm = world.join(rank);
    GradientSynchronizer sync(comm, {}, {});
    sync.wait();
    sync.wait();
    return std::to_string(sync.stats().steps) + " " + std::to_string(sync.gradient_norm());
  }) == "2 0.000000");
}
