// GradientSynchronizer in device memory, through the plugin and the double: the results of the host backend, streams,
// and failures that are reported later.
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"
#include "tests/support/sync_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// How a step ends.
enum class Ends { wait, wait_on_stream };

Communicator join(SyncWorld const& world, int rank, char const* backend, std::string const& script = "devices=4") {
  use_double(script, backend);
  return world.join(rank);
}

void end_step(GradientSynchronizer& sync, Ends ends) {
  if (ends == Ends::wait) {
    sync.wait();
    return;
  }
  sync.wait(Stream{});
  cudaStreamSynchronize(nullptr);
}

/// Steps with another order of marks on every rank, some with weights, some with unmarked gradients; returns all
/// gradients of all steps, and norms.
std::vector<double> train(Communicator& comm, int rank, GradientSynchronizer::Options options, Ends ends) {
  std::vector<double> all;
  options.find_unused = true;
  GradientSynchronizer sync(comm, mixed_parameters(), options);
  for (std::size_t step = 0; step < 6; ++step) {
    if (step % 3 == 1) {
      sync.set_weight(rank + 1);
    }
    for (auto const i : shuffled(sync.size(), static_cast<unsigned>(step * 10) + static_cast<unsigned>(rank))) {
      auto const gradient = sync.gradient<float>(i);
      for (std::size_t k = 0; k < gradient.size(); ++k) {
        gradient[k] = std::sin(static_cast<float>(step + k) + static_cast<float>(rank));
      }
      if (i != 4 || step != 2) {
        sync.mark_ready(i);
      }
    }
    end_step(sync, ends);
    for (std::size_t i = 0; i < sync.size(); ++i) {
      for (float const value : sync.gradient<float>(i)) {
        all.push_back(static_cast<double>(value));
      }
      all.push_back(sync.used(i) ? 1 : 0);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("gpu: the synchronizer's gradients are those of the host backend, to the bit", "[process]") {
  for (int const ranks : {1, 2, 3}) {
    for (auto const ends : {Ends::wait, Ends::wait_on_stream}) {
      for (bool const average : {true, false}) {
        SyncWorld const world{ranks};
        INFO(ranks << " ranks, " << static_cast<int>(ends));
        CHECK(world.run([&](int rank) -> std::string {
          auto options = small_buckets();
          options.average = average;
          auto host = join(world, rank, "host");
          auto const expected = train(host, rank, options, ends);
          auto device = join(world, rank, "nccl");
          auto const got = train(device, rank, options, ends);
          for (std::size_t i = 0; i < got.size(); ++i) {
            if (got[i] != expected[i]) {
              return "value " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
                     std::to_string(expected[i]);
            }
          }
          return got.size() == expected.size() ? "same" : "sizes differ";
        }) == "same");
      }
    }
  }
}

TEST_CASE("gpu: a weight costs one kernel for a bucket, not one for each gradient", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    std::vector<Parameter> parameters;
    for (int i = 0; i < 40; ++i) {
      parameters.push_back({"p" + std::to_string(i), 8, i < 20 ? DType::f32 : DType::bf16});
    }
    GradientSynchronizer sync(comm, parameters, {.rebuild_order = false});
    auto const before = cxxrun_cuda_double_calls("kernel");
    sync.set_weight(rank == 0 ? 3 : 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i < 20) {
        std::ranges::fill(sync.gradient<float>(i), static_cast<float>(4 * rank));
      } else {
        std::ranges::fill(sync.gradient<bfloat16>(i), bfloat16(static_cast<float>(4 * rank)));
      }
      sync.mark_ready(i);
    }
    sync.wait();
    auto const kernels = cxxrun_cuda_double_calls("kernel") - before;
    auto const buckets = sync.stats().buckets.size();
    expect(sync.gradient<float>(7)[7] == 1 && sync.gradient<bfloat16>(30)[0] == bfloat16(1.0F), "the weighted mean");
    // Besides the weight there are the scale of the all-reduce, and the weights' sum.
    return kernels <= 3 * buckets ? "few" : std::to_string(kernels) + " for " + std::to_string(buckets) + " buckets";
  }) == "few");
}

TEST_CASE("gpu: f16 gradients times weights are in range, from the first weighted step on", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    GradientSynchronizer sync(comm, {{"w", 400, DType::f16}, {"h", 100, DType::f16}}, {.first_bucket_bytes = 512});
    for (float const common : {32.0F, 2.0F, 32.0F}) {
      sync.set_weight(static_cast<double>(rank == 0 ? common : common / 2));
      for (std::size_t const i : {1U, 0U}) {
        std::ranges::fill(sync.gradient<float16>(i), float16(rank == 0 ? 3072.0F : 1536.0F));
        sync.mark_ready(i);
      }
      sync.wait();
      for (std::size_t const i : {0U, 1U}) {
        auto const mean = static_cast<float>(sync.gradient<float16>(i).back());
        if (mean != 2560) {
          return std::to_string(mean);
        }
      }
    }
    return "right";
  }) == "right");
}

TEST_CASE("gpu: gradients come to their new order on the device, and nothing of the host's is pinned for it",
          "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    constexpr std::size_t kLarge = std::size_t{1} << 20;
    GradientSynchronizer sync(comm, {{"a", kLarge}, {"b", 8}, {"c", kLarge}});
    for (std::size_t const i : {0U, 2U, 1U}) {
      auto const gradient = sync.gradient<float>(i);
      std::fill(gradient.begin(), gradient.end(), static_cast<float>(i + 1));
      sync.mark_ready(i);
    }
    auto* const before = sync.gradient_data(0);
    auto const pinned = cxxrun_cuda_double_calls("pinned bytes");
    sync.wait();
    for (std::size_t i = 0; i < 3; ++i) {
      for (float const value : sync.gradient<float>(i)) {
        if (value != static_cast<float>(i + 1)) {
          return "gradient " + std::to_string(i) + " has " + std::to_string(value);
        }
      }
    }
    bool const little = cxxrun_cuda_double_calls("pinned bytes") - pinned <= 128U << 10U;
    return sync.gradient_data(0) == before ? "stayed" : little ? "moved" : "pinned";
  }) == "moved");
}

TEST_CASE("gpu: plain steps of all types and wire formats, without waiting on the host", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    for (auto const wire : {Wire::same, Wire::bf16, Wire::f16}) {
      auto options = small_buckets();
      options.wire = wire;
      GradientSynchronizer sync(comm, mixed_parameters(), options);
      for (std::size_t step = 0; step < 5; ++step) {
        backward<float>(sync, step, rank, shuffled(sync.size(), static_cast<unsigned>(step)));
        end_step(sync, Ends::wait_on_stream);
        if (auto const text = wrong<float>(sync, step, 3); !text.empty()) {
          return text;
        }
      }
    }
    GradientSynchronizer half(comm, mixed_parameters(DType::bf16), small_buckets());
    for (std::size_t step = 0; step < 3; ++step) {
      backward<bfloat16>(half, step, rank, shuffled(half.size(), 1));
      half.wait();
      if (auto const text = wrong<bfloat16>(half, step, 3); !text.empty()) {
        return text;
      }
    }
    return "right";
  }) == "right");
}

TEST_CASE("gpu: gradients are read behind the streams that mark them, several of them too", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    auto options = small_buckets();
    options.rebuild_order = false;
    GradientSynchronizer sync(comm, {{"a", 8}, {"b", 8}}, options);
    std::array<cudaStream_t, 2> streams{};
    for (auto& stream : streams) {
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    }
    std::vector<float> const mine(8, static_cast<float>(2 * rank + 1));
    std::vector<float> seen(16);
    for (int step = 0; step < 5; ++step) {
      bool const weighted = step == 3;
      if (weighted) {
        sync.set_weight(1);
      }
      for (std::size_t i = 0; i < 2; ++i) {
        cxxrun_cuda_double_spin(streams[i], 10'000'000);
        cudaMemcpyAsync(sync.gradient_data(i), mine.data(), 32, cudaMemcpyHostToDevice, streams[i]);
        sync.mark_ready(i, Stream{streams[i]});
      }
      sync.wait(Stream{streams[0]});
      for (std::size_t i = 0; i < 2; ++i) {
        cudaMemcpyAsync(seen.data() + 8 * i, sync.gradient_data(i), 32, cudaMemcpyDeviceToHost, streams[0]);
      }
      cudaStreamSynchronize(streams[0]);
      if (seen != std::vector<float>(16, 2.0F)) {
        return "step " + std::to_string(step) + ": " + std::to_string(seen[0]) + " and " + std::to_string(seen[8]);
      }
      cudaStreamSynchronize(streams[1]);
    }
    return "right";
  }) == "right");
}

TEST_CASE("gpu: norms and broadcasts are those of the host backend", "[process]") {
  SyncWorld const world{2};
  CHECK(world.run([&](int rank) -> std::string {
    std::vector<double> norms;
    std::string text;
    for (char const* const backend : {"host", "nccl"}) {
      auto comm = join(world, rank, backend);
      GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
      for (std::size_t step = 0; step < 2; ++step) {
        backward<float>(sync, step, rank, shuffled(sync.size(), 1));
        end_step(sync, Ends::wait_on_stream);
        norms.push_back(sync.gradient_norm());
      }
      auto arena = comm.arena(2 << 20);
      auto const large = arena.allocate<float>(100'000);
      auto const small = arena.allocate<float>(10);
      std::vector<float> host(10, static_cast<float>(rank));
      large.back() = small.back() = static_cast<float>(rank);
      std::array<Tensor, 3> const tensors{Tensor{large.data(), large.size()}, Tensor{host.data(), host.size()},
                                          Tensor{small.data(), small.size()}};
      sync.broadcast(tensors, 1);
      text += large.back() == 1 && small.back() == 1 && host.back() == 1 ? "" : "broadcast on " + std::string(backend);
      comm.barrier();
    }
    return norms[0] == norms[2] && norms[1] == norms[3] ? text + "same" : text + "norms differ";
  }) == "same");
}

TEST_CASE("gpu: a mistake is told to all ranks by the wait after wait(stream), with its own step", "[process]") {
  SyncWorld const world{3};
  auto const said = world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    auto options = small_buckets();
    options.rebuild_order = false;
    GradientSynchronizer sync(comm, mixed_parameters(), options);
    for (int step = 0; step < 4; ++step) {
      try {
        for (std::size_t i = 0; i < sync.size(); ++i) {
          if (rank != 1 || step != 1 || i != 3) {
            sync.mark_ready(i);
          }
        }
        sync.wait(Stream{});
        comm.barrier();  // one rank has made the mistake, and the others do not know it yet
      } catch (Failure const& failure) {
        expect(step == 2, "the verdict came in another step");
        return failure.what();
      }
    }
    return "nothing";
  });
  INFO(said);
  CHECK(has(said, "1 of 10 gradients were never marked ready in step 2: \"p3\""));
  CHECK(has(said, "rank 1 on "));
  CHECK(said[0] != '[');  // the same on all ranks
}

TEST_CASE("gpu: a rank that is killed in the middle of a step is named by wait()", "[process]") {
  SyncWorld const world{3, "aab"};
  auto const ends = world.run([&](int rank) -> std::string {
    auto comm = join(world, rank, "nccl");
    GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
    for (std::size_t step = 0; step < 1000; ++step) {
      try {
        for (std::size_t i = 0; i < sync.size(); ++i) {
          sync.mark_ready(i);
          if (rank == 2 && step == 3 && i == 5) {
            raise(SIGKILL);
          }
        }
        sync.wait(Stream{});
      } catch (PeerFailure const& failure) {
        return (failure.why() == PeerFailure::Why::died ? "died: " : "other: ") + std::to_string(failure.rank());
      }
    }
    return "nothing";
  });
  INFO(ends);
  CHECK(has(ends, "[died: 2] [died: 2] "));
}

TEST_CASE("gpu: alone, a step launches nothing", "[process]") {
  SyncWorld const world{1};
  CHECK(world.run([&](int rank) {
    auto comm = join(world, rank, "nccl");
    GradientSynchronizer sync(comm, mixed_parameters(), small_buckets());
    auto const calls = [] {
      return cxxrun_cuda_double_calls("kernel") + cxxrun_cuda_double_calls("cudaEventRecord") +
             cxxrun_cuda_double_calls("cudaStreamWaitEvent") + cxxrun_cuda_double_calls("cudaMemcpyAsync") +
             cxxrun_cuda_double_calls("cudaMemsetAsync");
    };
    auto const before = calls();
    for (std::size_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < sync.size(); ++i) {
        sync.mark_ready(i);
      }
      step == 1 ? sync.wait(Stream{}) : sync.wait();
    }
    return std::to_string(calls() - before) + " calls";
  }) == "0 calls");
}
