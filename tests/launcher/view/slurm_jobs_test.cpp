#include "launcher/view/slurm_jobs.hpp"

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)

namespace {

constexpr char const* kTwo = "4711 4711 node[1-2]\n4715 4700_3 node7\n";

std::vector<std::string> meant(char const* list, char const* job) {
  std::vector<std::string> numbers;
  for (auto const& each : jobs_meant(read_squeue(list), job)) {
    numbers.push_back(each.number);
  }
  return numbers;
}

}  // namespace

TEST_CASE("slurm jobs: squeue's list gives their numbers and nodes, and nothing else passes") {
  auto const jobs = read_squeue(kTwo);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].nodes == std::vector<std::string>{"node1", "node2"});
  CHECK(jobs[1].name == "4700_3");
  CHECK(read_squeue("").empty());
  CHECK(read_squeue("squeue: error: no controller\n4711 4711 \n4711 4711 node[1\nx y node1\n").empty());
}

TEST_CASE("slurm jobs: a job is meant by its number, its step, or the number of its array and task") {
  CHECK(meant(kTwo, "4711") == std::vector<std::string>{"4711"});
  CHECK(meant(kTwo, "4711.0") == std::vector<std::string>{"4711"});
  CHECK(meant(kTwo, "4700_3") == std::vector<std::string>{"4715"});
  CHECK(meant(kTwo, "4715") == std::vector<std::string>{"4715"});
  CHECK(meant(kTwo, "47").empty());
  CHECK(meant(kTwo, "") == std::vector<std::string>{"4711", "4715"});
  CHECK(may_be_slurm_job(""));
  CHECK(may_be_slurm_job("4711.0"));
  CHECK_FALSE(may_be_slurm_job("my-run"));
}

TEST_CASE("slurm jobs: of several each is listed with its nodes") {
  CHECK(several_jobs_text(read_squeue(kTwo)) ==
        "several jobs of yours run, say which one: 4711 on node[1-2]; 4700_3 on node7");
}

TEST_CASE(
    "slurm jobs: srun starts the relay on one node, beside the steps, and hands on the job as the agents know it") {
  auto const array = read_squeue(kTwo)[1];
  CHECK(join(srun_words(array, "node7", "/opt/bin/cxxrunctl", "4700_3.1"), " ") ==
        "srun --jobid=4715 --overlap --nodes=1 --ntasks=1 --gres=none --mpi=none --chdir=/ -w node7 /opt/bin/cxxrunctl "
        "--relay 4715.1");
  CHECK(srun_words(array, "node7", "/opt/bin/cxxrunctl", "").back() == "--relay");
}

TEST_CASE("slurm jobs: srun takes no option from the job in which cxxrunctl is called") {
  auto const environment = environment_for_slurm({{"PATH", "/bin"},
                                                  {"SLURM_CONF", "/opt/slurm.conf"},
                                                  {"SLURM_NTASKS_PER_NODE", "8"},
                                                  {"SRUN_CPUS_PER_TASK", "64"},
                                                  {"SQUEUE_FORMAT", "%i"}});
  CHECK(environment == Environment{{"PATH", "/bin"}, {"SLURM_CONF", "/opt/slurm.conf"}});
}
