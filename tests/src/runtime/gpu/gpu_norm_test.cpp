// Norms of gradients in device memory, through the plugin and the double: for the host, and for a stream alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"
#include "tests/support/sync_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

Communicator join(SyncWorld const& world, int rank) {
  use_double("devices=4", "nccl");
  return world.join(rank);
}

}  // namespace

TEST_CASE("gpu: what is shortened to a norm on the device, and what is not finite, is seen by all ranks", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = join(world, rank);
    GradientSynchronizer sync(comm, {{"w", 400}, {"h", 100, DType::f16}});
    for (bool const finite : {true, false}) {
      std::ranges::fill(sync.gradient<float>(0), 3.0F);
      std::ranges::fill(sync.gradient<float16>(1), float16(8.0F));
      if (!finite && rank == 1) {
        sync.gradient<float16>(1)[99] = float16(std::numeric_limits<float>::infinity());
      }
      sync.mark_ready(0);
      sync.mark_ready(1);
      sync.wait(Stream{});
      double const norm = sync.clip_gradients(50);  // of 100
      expect(finite ? norm == 100 : !std::isfinite(norm), "the norm before");
      expect(sync.gradient<float>(0)[399] == (finite ? 1.5F : 3.0F), "halved, or left alone");
      expect(sync.gradient<float16>(1)[0] == float16(finite ? 4.0F : 8.0F), "halved in f16, or left alone");
    }
    return "clipped";
  }) == "clipped");
}

TEST_CASE("gpu: the square of the norm is on the device for what a stream does next, and the host does not wait",
          "[process]") {
  for (int const ranks : {1, 2}) {
    SyncWorld const world{ranks};
    CHECK(world.run([&](int rank) -> std::string {
      auto comm = join(world, rank);
      GradientSynchronizer sync(comm, {{"w", 400}, {"h", 100, DType::f16}}, {.rebuild_order = false});
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      double* squares = nullptr;
      cudaMalloc(reinterpret_cast<void**>(&squares), sizeof(double));
      for (bool const finite : {true, false}) {
        std::ranges::fill(sync.gradient<float>(0), 1.0F);
        std::ranges::fill(sync.gradient<float16>(1), float16(8.0F));
        if (!finite && rank == ranks - 1) {
          sync.gradient<float>(0)[7] = std::numeric_limits<float>::quiet_NaN();
        }
        sync.mark_ready(0, Stream{stream});
        sync.mark_ready(1, Stream{stream});
        sync.wait(Stream{stream});
        std::vector<float> const threes(400, finite ? 3.0F : 1.0F);  // the optimizer's own change of what was summed
        cxxrun_cuda_double_spin(stream, 50'000'000);
        if (finite) {
          cudaMemcpyAsync(sync.gradient_data(0), threes.data(), 1600, cudaMemcpyHostToDevice, stream);
        }
        sync.squared_norm(squares, Stream{stream});
        expect(cudaStreamQuery(stream) == cudaErrorNotReady, "the host waited");
        double seen = 0;
        cudaMemcpyAsync(&seen, squares, sizeof(double), cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        expect(finite ? seen == 10'000 : !std::isfinite(seen), "what the stream sees");
        expect(!finite || sync.gradient_norm() == 100, "the norm");
      }
      double here = 0;
      try {
        sync.squared_norm(&here, Stream{stream});
      } catch (Failure const& failure) {
        return has(failure.what(), "give it device memory for the result") ? "refused" : failure.what();
      }
      return "taken";
    }) == "refused");
  }
}
