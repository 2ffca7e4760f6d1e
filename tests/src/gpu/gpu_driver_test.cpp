// Communicator on NCCL, through the plugin and the double, when the driver is gone.
#include <cstdlib>
#include <optional>
#include <sys/wait.h>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

// As a program's static objects: destroyed after everything that came later, CUDA too.
std::optional<Communicator> g_comm;
std::optional<Arena> g_arena;
std::optional<Work> g_work;

}  // namespace

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
    std::exit(7);
  });
  for (auto const& end : ends) {
    INFO(under_way << " " << end.status << " " << end.said);
    CHECK((WIFEXITED(end.status) && WEXITSTATUS(end.status) == 7));
  }
}
