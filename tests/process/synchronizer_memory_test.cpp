// GradientSynchronizer: a step allocates nothing. A program of its own, because it counts all allocations.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/support/catch.hpp"
#include "tests/support/sync_world.hpp"

namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) {
    return memory;
  }
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

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
          before = step == 2 ? allocations.load() : before;  // the order was rebuilt, the communicator's thread runs
          if (step % 2 == 0) {
            sync.set_weight(rank + 1);
          }
          for (std::size_t i = 0; i < sync.size(); ++i) {
            sync.mark_ready(sync.size() - 1 - i);
          }
          sync.wait();
        }
        return std::to_string(allocations.load() - before) + " allocations";
      }) == "0 allocations");
    }
  }
}
