// Collectives: right sums, what they cost the host, and what follows when a rank is killed.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

#include "tests/gpu/gpu_check.hpp"

namespace cxxrun::gpu_check {
namespace {

using test::PluginComm;

constexpr std::chrono::seconds kGivenUp{5};  ///< without an error from NCCL after a kill

PluginComm open(cxxrun_cuda_api const& api, Arguments const& arguments, std::string const& file) {
  auto const id = arguments.world == 1 ? test::Id(CXXRUN_CUDA_ID_BYTES) : shared_id(api, file, arguments.rank);
  return {api, arguments.device, id, arguments.rank, arguments.world};
}

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// When the other rank killed itself, by the clock that all processes of a machine share.
std::int64_t killed_at(std::string const& file) {
  std::int64_t when = 0;
  std::ifstream(file + ".killed") >> when;
  return when;
}

[[noreturn]] void die(std::string const& file) {
  std::ofstream(file + ".killed") << nanoseconds_now() << std::endl;
  std::raise(SIGKILL);
  std::abort();
}

/// Sums until NCCL reports the loss ("its words") or nothing has moved for kGivenUp ("").
std::string until_lost(PluginComm& comm, comm::Call const& call) {
  try {
    while (true) {
      comm.run(call);
      cxxrun_cuda_status status{};
      std::uint64_t point = 0;
      comm.check(comm.api().mark(comm.raw(), &point, &status), status);
      comm.until_done(
          [&](cxxrun_cuda_status* now) {
            auto const code = comm.api().reached(comm.raw(), point, now);
            return code == CXXRUN_CUDA_IN_PROGRESS && comm.api().poll(comm.raw(), now) == CXXRUN_CUDA_OK ? code
                                                                                                         : now->code;
          },
          kGivenUp);
    }
  } catch (test::PluginError const& error) {
    return error.what();
  } catch (std::runtime_error const&) {
    return "";
  }
}

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
  auto comm = open(api, arguments, arguments.id);
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
  std::printf("%s: sums of %d ranks\n", right ? "ok" : "wrong", arguments.world);
  return right ? 0 : 1;
}

int check_survival(cxxrun_cuda_api const& api, Arguments const& arguments) {
  std::size_t const count = arguments.quick ? 1U << 10U : 1U << 22U;
  {
    auto comm = open(api, arguments, arguments.id);
    auto const call = sum_of(comm.allocate(count * sizeof(float)), count);
    if (!sum_is_right(comm, call, arguments.rank, arguments.world)) {
      throw std::runtime_error("the sums were wrong before anything failed");
    }
    if (arguments.next_id.empty()) {  // the replacement
      std::printf("ok: the replacement's sums are right\n");
      return 0;
    }
    if (arguments.dies) {
      comm.run(call);
      die(arguments.id);
    }
    auto const said = until_lost(comm, call);
    auto const noticed = nanoseconds_now();
    comm.api().abort(comm.raw());
    auto const aborted = nanoseconds_now();
    if (said.empty()) {
      std::printf("the loss was not noticed within %d s\n", static_cast<int>(kGivenUp.count()));
    } else {
      std::printf("noticed %.1f ms after the kill: %s\n", static_cast<double>(noticed - killed_at(arguments.id)) / 1e6,
                  said.c_str());
    }
    std::printf("aborted in %.1f ms\n", static_cast<double>(aborted - noticed) / 1e6);
  }
  auto const from = Clock::now();
  auto comm = open(api, arguments, arguments.next_id);
  auto const ready = Clock::now();
  auto const call = sum_of(comm.allocate(count * sizeof(float)), count);
  bool const right = sum_is_right(comm, call, arguments.rank, arguments.world);
  std::printf("a new communicator in %.1f ms\n", milliseconds(ready - from));
  std::printf("%s: the sums with the replacement\n", right ? "ok" : "wrong");
  return right ? 0 : 1;
}

int check_host_cost(cxxrun_cuda_api const& api, Arguments const& arguments) {
  auto comm = open(api, arguments, arguments.id);
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
  std::printf("until the call is handed over %.1f us, until the next one may follow %.1f us (medians of %d)\n",
              median(queued), median(whole), rounds);
  std::printf("ok\n");
  return 0;
}

int check_alone(cxxrun_cuda_api const& api, Arguments const& arguments) {
  auto comm = open(api, arguments, arguments.id);
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
