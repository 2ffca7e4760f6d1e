#include "launcher/workers/death_watch.hpp"

#include <cerrno>
#include <csignal>

#include "tests/support/catch.hpp"
#include "tests/support/planted_cgroup.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;      // NOLINT(google-build-using-namespace)

namespace {

rendezvous::WorkerExit killed() {
  rendezvous::WorkerExit exit;
  exit.status = ExitStatus::signalled(SIGKILL);
  return exit;
}

rendezvous::WorkerExit explained(DeathWatch& watch, rendezvous::WorkerExit exit, std::uint64_t peak = 0,
                                 std::uint32_t kills = 0) {
  watch.refresh();
  watch.explain({&exit, peak}, {{&exit, peak}}, kills);
  return exit;
}

std::string cause_of(DeathWatch& watch, rendezvous::WorkerExit exit, std::uint64_t peak = 0) {
  return explained(watch, std::move(exit), peak).cause;
}

}  // namespace

TEST_CASE("death watch: a kernel's kill since the generation began explains a SIGKILL", "[process]") {
  for (bool const unified : {false, true}) {
    PlantedCgroup planted(unified);
    DeathWatch watch(planted.root());
    planted.count(1, 1);
    watch.begin(0);  // the kill before it belongs to an earlier generation
    CHECK(cause_of(watch, killed()) == "from outside (not cxxrun, not the out-of-memory killer)");
    planted.count(2, 4);
    CHECK(cause_of(watch, killed(), 98U << 20U) ==
          "killed by the kernel: memory limit 100 MiB of step 3.0 (worker peak 98 MiB, 12 MiB in use after it)");
  }
}

TEST_CASE("death watch: no limit was hit, so the host is out of memory", "[process]") {
  PlantedCgroup planted(false);
  DeathWatch watch(planted.root());
  watch.begin(0);
  planted.count(1, 0);
  CHECK(cause_of(watch, killed()) ==
        "killed by the kernel: this host ran out of memory, no limit of yours was reached");
}

TEST_CASE("death watch: the limit of the step is the job's own, the memory of the host is not", "[process]") {
  for (bool const unified : {false, true}) {
    PlantedCgroup planted(unified);
    DeathWatch watch(planted.root());
    watch.begin(0);
    CHECK_FALSE(explained(watch, killed()).of_job);
    planted.count(1, 0);
    CHECK_FALSE(explained(watch, killed()).of_job);
    planted.count(2, 4);
    CHECK(explained(watch, killed()).of_job);
  }
}

TEST_CASE("death watch: of several deaths and one kill it is the largest worker's", "[process]") {
  PlantedCgroup planted(true);
  DeathWatch watch(planted.root());
  watch.begin(0);
  planted.count(1, 1);
  auto small = killed();
  auto large = killed();
  auto stopped = killed();
  stopped.ours = true;
  std::vector<DeadWorker> const all{{&small, 5}, {&large, 6}, {&stopped, 7}};
  for (auto const& dead : all) {
    watch.explain(dead, all, 0);
  }
  CHECK(small.cause.starts_with("from outside"));
  CHECK(large.cause.starts_with("probably killed by the kernel"));
  CHECK(stopped.cause.empty());
}

TEST_CASE("death watch: what the parent killed is not from outside", "[process]") {
  PlantedCgroup const planted(true);
  DeathWatch watch(planted.root());
  watch.begin(1);
  CHECK(explained(watch, killed(), 0, 1).cause.starts_with("from outside"));
  CHECK(explained(watch, killed(), 0, 2).cause ==
        "killed by cxxrun's parent process: the lease of this node had run out");
}

TEST_CASE("death watch: a kill in a step of Slurm's is told once, for the step has failed for good", "[process]") {
  PlantedCgroup planted(false);
  DeathWatch watch(planted.root());
  CHECK(watch.taint().empty());
  planted.count(1, 1);
  CHECK(
      watch.taint() ==
      "the kernel has killed a process for the memory limit of step 3.0: for Slurm the step is OUT_OF_MEMORY and srun "
      "will exit with 1, also when the job succeeds now");
  CHECK(watch.taint().empty());
}

TEST_CASE("death watch: a path that did not answer is named, and none behind it", "[process]") {
  PlantedCgroup const planted(true);
  DeathWatch watch(planted.root());
  watch.begin(0);
  rendezvous::WorkerExit exit;
  exit.status = ExitStatus::signalled(SIGBUS);
  CHECK(DeathWatch::needs_probe({{&exit, 0}}));
  watch.probed({".", "/data/train.py", "/tmp"}, {{0, false}});
  CHECK(cause_of(watch, exit) == "file server gone: /data/train.py does not answer within 2 s");
  watch.probed({".", "/data/train.py"}, {{0, false}, {ESTALE, false}});
  CHECK(cause_of(watch, exit) == "file server gone: /data/train.py: Stale file handle");
  exit.ours = true;
  CHECK_FALSE(DeathWatch::needs_probe({{&exit, 0}}));
}
