// GradientSynchronizer: a step allocates nothing. A separate program, because it counts all allocations.
#include "tests/support/allocations.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sync_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("synchronizer: steps after the first two allocate nothing, on any thread", "[process]") {
  for (int const ranks : {1, 2}) {
    for (bool const find_unused : {false, true}) {
      SyncWorld const world{ranks};
      CHECK(world.run([&](int rank) {
        auto comm = world.join(rank);
        auto options = small_buckets();
        options.find_unused = find_unused;
        GradientSynchronizer sync(comm, mixed_parameters(), options);
        std::size_t before = 0;
        for (std::size_t step = 0; step < 20; ++step) {
          before = step == 2 ? allocations() : before;  // the order was rebuilt, the communicator's thread runs
          if (step % 2 == 0) {
            sync.set_weight(rank + 1);
          }
          for (std::size_t i = 0; i < sync.size(); ++i) {
            sync.mark_ready(sync.size() - 1 - i);
          }
          sync.wait();
        }
        return std::to_string(allocations() - before) + " allocations";
      }) == "0 allocations");
    }
  }
}
