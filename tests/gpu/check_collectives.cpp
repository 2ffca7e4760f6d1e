// Collectives: right sums, and what they cost the host.
#include <cstdio>

#include "tests/gpu/gpu_check.hpp"

namespace cxxrun::gpu_check {
namespace {

using test::PluginComm;

/// Of 40000 of each rank, whose sum is too large for f16.
bool f16_mean_is_right(PluginComm& comm, int world) {
  std::vector<float16> const mine(1000, float16(40000.0F));
  auto* const data = comm.upload(mine);
  comm.run({.kind = comm::Kind::all_reduce,
            .type = DType::f16,
            .count = mine.size(),
            .scale = 1.0F / static_cast<float>(world),
            .in = data,
            .out = data});
  return comm.download(data, mine.size()) == mine;
}

}  // namespace

int check_all_reduce(cxxrun_cuda_api const& api, Arguments const& arguments) {
  auto comm = open_comm(api, arguments, arguments.id);
  std::size_t const most = arguments.quick ? 1U << 18U : 1U << 24U;  // f32: 64 MiB
  void* const data = comm.allocate(most * sizeof(float));
  bool right = f16_mean_is_right(comm, arguments.world);
  for (auto const wire : {Wire::same, Wire::bf16}) {
    for (std::size_t count = 256; count <= most; count *= 16) {
      auto const call = sum_of(data, count, wire);
      right = sum_is_right(comm, call, arguments.rank, arguments.world) && right;
      std::vector<double> times;
      for (int round = 0; round < 5; ++round) {
        auto const from = Clock::now();
        comm.run(call);
        comm.synchronize();
        times.push_back(milliseconds(Clock::now() - from));
      }
      std::printf("%zu KiB%s %.3f ms\n", count * sizeof(float) / 1024, wire == Wire::bf16 ? " as bf16" : "",
                  median(times));
    }
  }
  comm.finalize();
  std::printf("%s: sums of %d ranks\n", right ? "ok" : "wrong", arguments.world);
  return right ? 0 : 1;
}

int check_host_cost(cxxrun_cuda_api const& api, Arguments const& arguments) {
  auto comm = open_comm(api, arguments, arguments.id);
  std::size_t const count = 1U << 10U;
  auto const call = test::plugin_call(sum_of(comm.allocate(count * sizeof(float)), count));
  std::vector<double> queued;
  std::vector<double> whole;
  int const rounds = arguments.quick ? 20 : 1000;
  for (int round = 0; round < rounds; ++round) {
    cxxrun_cuda_status status{};
    std::uint64_t point = 0;
    auto const from = Clock::now();
    comm.check(comm.api().after(comm.raw(), nullptr, &status), status);
    auto const code = comm.api().enqueue(comm.raw(), &call, &status);
    auto const given = Clock::now();
    comm.check(code, status);
    comm.check(comm.api().mark(comm.raw(), &point, &status), status);
    auto const to = Clock::now();
    queued.push_back(1000 * milliseconds(given - from));
    whole.push_back(1000 * milliseconds(to - from));
    if (round % 20 == 19) {
      comm.synchronize();
    }
  }
  comm.finalize();
  std::printf("until the call is handed over %.1f us, until the next one may follow %.1f us (medians of %d)\n",
              median(queued), median(whole), rounds);
  std::printf("ok\n");
  return 0;
}

int check_alone(cxxrun_cuda_api const& api, Arguments const& arguments) {
  auto comm = open_comm(api, arguments, arguments.id);
  auto const call = test::plugin_call(sum_of(comm.allocate(1U << 20U), 1U << 18U));
  int const rounds = arguments.quick ? 1000 : 1'000'000;
  cxxrun_cuda_status status{};
  auto const from = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    comm.check(comm.api().enqueue(comm.raw(), &call, &status), status);
  }
  std::printf("%.0f ns for each bucket\n", 1e6 * milliseconds(Clock::now() - from) / rounds);
  std::printf("ok\n");
  return 0;
}

}  // namespace cxxrun::gpu_check
