// Device memory in Communicators of the host backend: the driver tells it from host memory, and it is refused by name.
#include "src/runtime/client/device_memory.hpp"

#include <array>
#include <dlfcn.h>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"
#include "tests/support/cuda_driver.h"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The driver, loaded by now.
struct Driver {
  void* library = ::dlopen(CXXRUN_CUDA_DRIVER, RTLD_NOW | RTLD_LOCAL);
  template <class Function>
  Function* get(char const* name) const {
    auto* const found = library == nullptr ? nullptr : ::dlsym(library, name);
    expect(found != nullptr, name);
    return reinterpret_cast<Function*>(found);
  }
  [[nodiscard]] float* allocate(bool managed = false) const {
    return static_cast<float*>(get<decltype(cuda_driver_allocate)>("cuda_driver_allocate")(1U << 20U, managed ? 1 : 0));
  }
  [[nodiscard]] std::uint64_t questions() const {
    return get<decltype(cuda_driver_questions)>("cuda_driver_questions")();
  }
};

void call(Communicator& comm, int number, float* device, float* host) {
  auto const bytes = static_cast<std::size_t>(comm.world_size());
  switch (number) {
    case 0: return comm.all_reduce(device, device, 4, DType::f32);
    case 1: return comm.all_reduce(device, host, 4, DType::f32);
    case 2: return comm.all_gather(host, device, 4, DType::f32);
    case 3: return comm.reduce_scatter(device, host, 4, DType::f32);
    case 4: return comm.all_to_all(host, device, bytes, DType::u8);
    case 5: return comm.broadcast(device, 4, DType::f32, 1);
    case 6: return comm.start_all_reduce(device, device, 4, DType::f32).wait();
    default: return comm.start_broadcast(device, 4, DType::f32).wait();
  }
}
constexpr int kCalls = 8;

}  // namespace

TEST_CASE("device memory in a Communicator of the host backend, and in a group of it, is refused by name") {
  for (bool const in_group : {false, true}) {
    for (int number = 0; number < kCalls; ++number) {
      ForkedStore const store;
      auto const ends = run_ranks(3, [&](int rank) {
        auto world = init(store, rank, "aab");
        auto group = world.split(0);
        auto& comm = in_group ? *group : world;
        std::vector<float> host(64);
        comm.all_reduce(std::span(host));  // the driver is not loaded yet
        Driver const driver;
        auto* const device = rank == 1 ? driver.allocate() + 1000 : host.data() + 32;
        return words([&] { call(comm, number, device, host.data()); });
      });
      INFO(in_group << " " << number << ": " << ends[0].said << "; " << ends[1].said << "; " << ends[2].said);
      CHECK(ends[1].said.starts_with("rank 1 on host_a: "));
      CHECK(has(ends[1].said, ": a buffer is memory of a GPU, but this Communicator works on host memory; copy"));
      for (int rank : {0, 2}) {
        CHECK(has(ends[static_cast<std::size_t>(rank)].said, "rank 1 on host_a left"));
      }
    }
  }
}

TEST_CASE("device memory in a world of one is refused, and managed memory is the host's too") {
  ForkedStore const store;
  auto const ends = run_ranks(1, [&](int rank) {
    auto comm = init(store, rank, "a");
    Driver const driver;
    std::vector<float> host(4);
    auto* const managed = driver.allocate(true);
    managed[3] = 7;
    comm.all_reduce(managed, host.data(), 4, DType::f32);
    expect(host[3] == 7, "the sum over one rank");
    return words([&] { comm.all_reduce(driver.allocate(), host.data(), 4, DType::f32); });
  });
  CHECK(has(ends[0].said, "rank 0 on host_a: all_reduce of 4 f32, sum: a buffer is memory of a GPU"));
}

TEST_CASE("device memory among the tensors of a broadcast is refused on all ranks") {
  for (std::size_t const count : {10, 100'000}) {
    for (bool const everywhere : {true, false}) {
      ForkedStore const store;
      auto const ends = run_ranks(2, [&](int rank) {
        auto comm = init(store, rank, "aa");
        GradientSynchronizer sync(comm, {{"w", 4}});
        Driver const driver;
        std::vector<float> host(count);
        std::array<Tensor, 3> tensors{Tensor{nullptr, 0}, Tensor{host.data(), 3}, Tensor{host.data(), count}};
        if (everywhere || rank == 1) {
          tensors[2].data = driver.allocate();
        }
        return words([&] { sync.broadcast(tensors); });
      });
      for (int rank : {0, 1}) {
        auto const& said = ends[static_cast<std::size_t>(rank)].said;
        INFO(count << ": " << said);
        auto const tensor = "tensor 2 of " + std::to_string(count) + " f32 on the device";
        CHECK(has(said, tensor));
        CHECK(has(said, everywhere ? "rank " + std::to_string(rank) + " on host_a: broadcast of " + tensor +
                                         ": a buffer is memory of a GPU"
                                   : "every rank must broadcast the same tensors"));
      }
    }
  }
}

TEST_CASE("the driver is asked about a buffer's page once, and again when it has been out of mind") {
  auto const ends = run_ranks(1, [](int) -> std::string {
    Driver const driver;
    client::DeviceMemory memory;
    std::vector<std::byte> pages(300 * 4096);
    for (int round = 0; round < 1000; ++round) {
      expect(!memory.holds(pages.data()) && !memory.holds(pages.data() + 4096), "host memory");
    }
    expect(driver.questions() == 2, "two questions for two pages");
    for (std::size_t page = 0; page < 300; ++page) {
      expect(!memory.holds(pages.data() + page * 4096), "host memory");
    }
    expect(!memory.holds(pages.data()), "host memory");
    expect(driver.questions() == 2 + 298 + 1, "one for each other page, and for the one that others took the place of");
    auto* const device = driver.allocate();
    expect(memory.holds(device) && memory.holds(device + 5), "device memory, each time");
    return "done";
  });
  CHECK(ends[0].said == "done");
}
