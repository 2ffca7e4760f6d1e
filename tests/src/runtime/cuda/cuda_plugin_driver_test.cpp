// Which driver calls the plugin avoids while kernels run, and what happens to a thread that is inside NCCL.
#include <atomic>
#include <thread>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_world.hpp"
#include "tests/support/eventually.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using comm::Call;
using comm::Kind;

namespace {

Call sum_of(void* data, DType type, std::size_t count) {
  return {.kind = Kind::all_reduce, .type = type, .count = count, .in = data, .out = data};
}

/// Every function with a kernel, at `data`, with `sum` for squares.
void use_all_kernels(PluginComm& comm, std::byte* data, double* sum) {
  for (auto const type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    cxxrun_cuda_status status{};
    auto call = sum_of(data, type, 4);
    call.scale = 0.5F;
    comm.run(call);
    auto const number = static_cast<std::uint8_t>(type);
    comm.check(comm.api().multiply(comm.raw(), number, data, 4, 2, &status), status);
    comm.check(comm.api().add_squares(comm.raw(), number, data, 4, sum, &status), status);
  }
  for (auto const wire : {Wire::bf16, Wire::f16}) {
    auto call = sum_of(data, DType::f32, 4);
    call.wire = wire;
    comm.run(call);
  }
}

}  // namespace

TEST_CASE("cuda plugin: every kernel is loaded when the device is opened, and none later", "[process]") {
  auto const said = on_devices(2, "", [](PluginComm& comm, int) -> std::string {
    auto* const data = static_cast<std::byte*>(comm.allocate(256));
    auto* const sum = static_cast<double*>(comm.allocate(sizeof(double)));
    auto const loaded = cxxrun_cuda_double_calls("kernel loaded");
    use_all_kernels(comm, data, sum);
    use_all_kernels(comm, data + 8, sum);
    comm.synchronize();
    return std::to_string(cxxrun_cuda_double_calls("kernel loaded") - loaded);
  });
  CHECK(said == "0\n0\n");
}

TEST_CASE("cuda plugin: what a reduce_scatter in place sets aside grows without giving memory back", "[process]") {
  auto const said = on_devices(2, "", [](PluginComm& comm, int) -> std::string {
    constexpr std::size_t kMost = 2'000'000;
    auto* const data = comm.allocate(2 * kMost * sizeof(float));
    auto const freed = cxxrun_cuda_double_calls("cudaFree");
    for (std::size_t const count : {std::size_t{4}, std::size_t{1'000'000}, kMost}) {
      auto call = sum_of(data, DType::f32, count);
      call.kind = Kind::reduce_scatter;
      comm.run(call);
    }
    comm.synchronize();
    return std::to_string(cxxrun_cuda_double_calls("cudaFree") - freed);
  });
  CHECK(said == "0\n0\n");
}

TEST_CASE("cuda plugin: an abort waits for a thread that is inside NCCL, and that thread is told", "[process]") {
  auto const said = on_devices(2, "hang=0,state=2", [](PluginComm& comm, int) -> std::string {
    comm.run(sum_of(comm.allocate(64), DType::f32, 4));
    std::atomic<int> polls{0};
    std::string last;
    std::thread inside([&] {
      cxxrun_cuda_status status{};
      while (comm.api().poll(comm.raw(), &status) == CXXRUN_CUDA_OK) {
        ++polls;
      }
      last = status.text;
    });
    eventually([&] { return polls != 0; });
    comm.api().abort(comm.raw());
    inside.join();
    return last;
  });
  CHECK(said == "the communicator was aborted\nthe communicator was aborted\n");
}
