// Several Communicators on one GPU with room for one NCCL kernel, and one that is started after another one could not
// be connected.
#include <algorithm>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

/// A Communicator with a buffer in device memory, which is host memory with the double.
struct Side {
  Communicator comm;
  Arena arena = comm.arena(kCount * sizeof(float));
  std::span<float> values = arena.allocate<float>(kCount);
  Work start(Stream stream = {}) {
    return comm.start_all_reduce(values.data(), values.data(), kCount, DType::f32, ReduceOp::sum, Wire::same, 1.0F,
                                 stream);
  }
};

}  // namespace

TEST_CASE("gpu order: two Communicators take turns where each call begins when the one before is done", "[process]") {
  for (bool const on_stream : {false, true}) {
    ForkedStore const store;
    auto const ends = run_ranks(2, [&](int rank) -> std::string {
      Side one{init_on_device(store, rank, "aa", "room=1")};
      Side two{init_on_device(store, rank, "aa", "room=1")};
      std::ranges::fill(one.values, static_cast<float>(rank + 1));
      std::ranges::fill(two.values, static_cast<float>(rank + 1));
      cudaStream_t stream = nullptr;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      for (int i = 0; i < 20; ++i) {
        for (auto* const side : {&one, &two}) {
          auto work = side->start(Stream{stream});
          on_stream ? work.wait_on(Stream{stream}) : work.wait();
        }
      }
      cudaStreamSynchronize(stream);
      one.comm.barrier();
      return std::to_string(one.values.back()) + " " + std::to_string(two.values.back());
    });
    for (auto const& end : ends) {
      INFO(on_stream << " " << end.said);
      CHECK(end.said == std::to_string(3.0F * (1 << 19)) + " " + std::to_string(3.0F * (1 << 19)));
    }
  }
}

TEST_CASE("gpu order: two Communicators called in another order on each rank wait until op_timeout, and all are told",
          "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    Communicator::Options options;
    options.op_timeout = 1s;
    Side one{init_on_device(store, rank, "aa", "room=1", options)};
    Side two{init_on_device(store, rank, "aa", "room=1", options)};
    auto& first = rank == 0 ? one : two;
    auto& second = rank == 0 ? two : one;
    auto const before = cxxrun_cuda_double_calls("rooms");
    auto work = first.start();
    eventually([&] { return cxxrun_cuda_double_calls("rooms") != before; });
    or_throw(store.client().add("begun", 1));
    std::string said;
    try {
      second.start().wait();
      work.wait();
    } catch (std::exception const& failure) {
      said = failure.what();
    }
    return said;
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said,
              "was not done within 1 s, though every rank made it: NCCL is stuck, or blocked by calls of another "
              "Communicator"));
  }
}

TEST_CASE("gpu order: where NCCL could not connect, a thread of it stays, and the next Communicator is not kept by it",
          "[process]") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    Communicator::Options options;
    options.init_timeout = 1s;
    try {
      init_on_device(store, rank, "aa", "init=stuck:1", options);
      return "met";
    } catch (Failure const& failure) {
      expect(has(failure.what(), "NCCL has not connected all ranks in time"), failure.what());
    }
    expect(cxxrun_cuda_double_calls("threads left") == 1, "a thread that stays");
    Side next{init_on_device(store, rank, "aa", "init=stuck:1")};
    std::ranges::fill(next.values, 1.0F);
    next.start().wait();
    return std::to_string(next.values.back());
  });
  for (auto const& end : ends) {
    INFO(end.status << " " << end.said);
    CHECK(end.returned());
    CHECK(end.said == std::to_string(2.0F));
  }
}
