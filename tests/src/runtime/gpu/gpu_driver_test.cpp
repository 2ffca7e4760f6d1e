// Communicator on NCCL, through the plugin and the double, when the driver makes calls wait, and when it is gone.
#include <csignal>
#include <cstdlib>
#include <optional>
#include <sys/wait.h>
#include <thread>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// For a rank that leaves memory to the operating system because CUDA is gone.
bool g_leaks = false;

}  // namespace

/// Called by LeakSanitizer when the process ends.
extern "C" int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier): its name
  return g_leaks ? 1 : 0;
}

namespace {

// Like a program's static objects: destroyed after everything that was made later, including CUDA.
std::optional<Communicator> g_comm;
std::optional<Arena> g_arena;
std::optional<Work> g_work;

/// Kills `victim` while that many calls wait behind the kernel of an all_reduce; returns what the other rank throws.
/// `waits`: what the double counts, and how many.
std::string blocked(int victim, char const* script, std::pair<char const*, std::uint64_t> waits,
                    std::function<void(Communicator&, Arena&)> const& block) {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    auto comm = init_on_device(store, rank, "aa", script);
    auto arena = comm.arena(4096);
    auto const values = arena.allocate<float>(8);
    comm.all_reduce(values);
    if (rank == victim) {
      or_throw(store.client().wait({"blocked"}));
      raise(SIGKILL);
    }
    auto work = comm.start_all_reduce(values.data(), values.data(), 8, DType::f32);
    std::thread observer([&] {
      eventually([&] { return cxxrun_cuda_double_calls(waits.first) >= waits.second; });
      or_throw(store.client().add("blocked", 1));
    });
    std::string said;
    try {
      block(comm, arena);
      said = "came back, ";
      work.wait();
    } catch (PeerFailure const& failure) {
      said += "rank " + std::to_string(failure.rank());
    }
    observer.join();
    return said;
  });
  return ends[static_cast<std::size_t>(1 - victim)].said;
}

}  // namespace

TEST_CASE("gpu: a death is seen while the program is blocked in the driver behind the call's kernel", "[process]") {
  // The program is in cudaFree; behind it waits a thread of this library that asks how far the device is.
  CHECK(blocked(1, "driver=locks", {"driver waits", 2}, [](Communicator&, Arena&) {
          void* memory = nullptr;
          cudaHostAlloc(&memory, 64, cudaHostAllocDefault);
        }) == "came back, rank 1");
}

TEST_CASE("gpu: a death is seen while a call of the library's own is blocked in the driver", "[process]") {
  CHECK(blocked(0, "driver=locks", {"driver waits", 1}, [](Communicator& comm, Arena& arena) {
          auto const values = arena.allocate<float>(8);
          comm.start_reduce_scatter(values.data(), values.data(), 4, DType::f32).wait();
        }) == "rank 0");
}

TEST_CASE("gpu: a death is seen while a call waits inside NCCL for room on the device", "[process]") {
  CHECK(blocked(1, "launches=8", {"launches kept", 1}, [](Communicator& comm, Arena& arena) {
          auto const values = arena.allocate<float>(8);
          for (;;) {
            static_cast<void>(comm.start_all_reduce(values.data(), values.data(), 8, DType::f32));
          }
        }) == "rank 1");
}

TEST_CASE("gpu: a Communicator that is destroyed after CUDA asks nothing of it, and the exit code stays", "[process]") {
  bool const under_way = GENERATE(false, true);
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) -> std::string {
    g_comm.emplace(init_on_device(store, rank, "aa", under_way ? "hang=1" : ""));
    g_arena.emplace(g_comm->arena(4096));
    auto* const values = g_arena->allocate<float>(8).data();
    g_comm->start_all_reduce(values, values, 8, DType::f32).wait();
    g_work.emplace(g_comm->start_all_reduce(values, values, 8, DType::f32));
    if (!under_way) {
      g_work->wait();
    }
    g_leaks = true;
    std::exit(7);
  });
  for (auto const& end : ends) {
    INFO(under_way << " " << end.status << " " << end.said);
    CHECK((WIFEXITED(end.status) && WEXITSTATUS(end.status) == 7));
  }
}
