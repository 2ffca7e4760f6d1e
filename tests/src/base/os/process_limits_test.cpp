#include "src/base/os/process_limits.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/planted_cgroup.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

TEST_CASE("memory group: kills of the own group, limits of those above it, in both versions", "[process]") {
  for (bool const unified : {false, true}) {
    INFO(unified);
    PlantedCgroup planted(unified);
    os::MemoryGroup const group(planted.root());
    CHECK(group.read() == MemoryCounters{0, 40, {{PlantedCgroup::step(), 104'857'600, 12'582'912, 0}}});
    planted.count(2, 5);
    planted.count_machine(42);
    CHECK(group.read() == MemoryCounters{2, 42, {{PlantedCgroup::step(), 104'857'600, 12'582'912, 5}}});
  }
}

TEST_CASE("memory group: where nothing is to be read nothing is counted", "[process]") {
  TempDir const empty;
  CHECK(os::MemoryGroup(empty.path()).read() == MemoryCounters{});
  PlantedCgroup const planted(true);
  std::filesystem::remove_all(planted.root() + "/cg");
  CHECK(os::MemoryGroup(planted.root()).read() == MemoryCounters{std::nullopt, 40, {}});
}

TEST_CASE("memory group: this kernel's own files can be read", "[process]") {
  CHECK(os::MemoryGroup().read().machine.has_value());
}
