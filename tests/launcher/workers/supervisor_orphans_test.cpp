// What workers leave behind becomes the agent's children: it dies with them, and costs no worker its exit.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "src/base/os/children.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/supervisor_bench.hpp"

using namespace cxxrun;
using namespace cxxrun::launcher;
using namespace cxxrun::test;
using namespace std::chrono_literals;

using Bench = SupervisorBench;

TEST_CASE("supervisor: daemons of the workers die at a stop", "[process]") {
  Bench bench;
  bench.start({bench.probe("daemons"), bench.probe("daemons")});
  bench.fifo.expect_lines(6);

  bench.supervisor->stop(order(100ms));  // one daemon in two ignores SIGTERM
  bench.run_to_the_end();

  CHECK_FALSE(os::has_children());
  bench.fifo.wait_until_all_are_dead();
}

TEST_CASE("supervisor: daemons left behind by workers that succeed die too", "[process]") {
  Bench bench;
  bench.start({bench.probe("leave")});
  bench.fifo.expect_lines(2);

  CHECK(bench.run_to_the_end().exits[0].status.ok());

  CHECK_FALSE(os::has_children());
  bench.fifo.wait_until_all_are_dead();
}

// Exits of workers and of orphans in the same instants: taken by pid, or one of a worker is taken for an orphan's.
TEST_CASE("supervisor: no exit is lost among those of orphans", "[process]") {
  Bench bench;
  for (std::uint64_t generation = 1; generation <= 20; ++generation) {
    std::vector<WorkerSpec> workers;
    for (int orphans = 0; orphans < 40; ++orphans) {
      auto const count = std::to_string(orphans);
      workers.push_back(Bench::shell("i=" + count + "; while [ $i -gt 0 ]; do (: &); i=$((i - 1)); done"));
    }
    bench.start(std::move(workers), generation);
    REQUIRE(bench.run_to_the_end().exits.size() == 40);
  }
}
