// A forked child cannot use its parent's Communicator on a device, and does not call CUDA.
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

void average(GradientSynchronizer& sync) {
  std::ranges::fill(sync.gradient<float>(0), 2.0F);
  sync.mark_ready(0);
  sync.wait(Stream{});
}

}  // namespace

TEST_CASE("gpu: a forked child's calls are refused by name, and its parent goes on", "[process]") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    auto comm = init_on_device(store, rank, "aa");
    auto sync = std::make_unique<GradientSynchronizer>(comm, std::vector<Parameter>{{"w", 300}});
    std::vector<float> host(8, 1.0F);
    double* square = nullptr;
    cudaMalloc(reinterpret_cast<void**>(&square), sizeof *square);
    average(*sync);
    std::vector<std::function<void()>> const calls{
        [&] { comm.all_reduce(sync->gradient<float>(0)); },
        [&] { comm.all_reduce(std::span(host)); },
        [&] { comm.report_step(7); },
        [&] { static_cast<void>(sync->gradient_norm()); },
        [&] { static_cast<void>(sync->clip_gradients(1)); },
        [&] { sync->squared_norm(square, Stream{}); },
        [&] { sync->broadcast({}, 0); },
        [&] { average(*sync); },
    };
    // In a forked child CUDA answers every call with an error.
    auto const begin = cxxrun_cuda_double_lose_context;
    expect(refused_in_child(calls, begin) == static_cast<int>(calls.size()), "every call is refused");
    expect(refused_in_child({[&] { sync.reset(); }}, begin) == 0, "destroying does nothing");
    average(*sync);
    expect(sync->gradient_norm() > 0 && sync->gradient<float>(0)[299] == 2, "the parent's mean");
    comm.barrier();
    return std::string();
  }));
}
