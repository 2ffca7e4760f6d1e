#include "launcher/facts/outer_launcher.hpp"

#include "src/base/core/variables.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

Environment worker_of(std::string const& left, std::string const& job, std::string const& step) {
  Environment environment{{"CXXRUN_RUN_ID", "mine"}};
  for (auto const& [name, value] :
       Environment{{cxxrun::variables::kJobStep, left}, {"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}) {
    if (!value.empty()) {
      environment[name] = value;
    }
  }
  return environment;
}

}  // namespace

TEST_CASE("outer_launcher: a worker is below a cxxrun in the job and step of that one alone", "[unit]") {
  CHECK(inside_worker(worker_of("7.0", "7", "0")));
  CHECK(inside_worker(worker_of("7", "7", "")));           // of a batch script
  CHECK(inside_worker(worker_of("", "", "")));             // of no job
  CHECK(inside_worker(worker_of("7.0", "", "")));          // --slurm-env clear
  CHECK_FALSE(inside_worker(worker_of("7.0", "7", "1")));  // srun --overlap
  CHECK_FALSE(inside_worker(worker_of("7", "7", "0")));    // srun, in a batch script's worker
  CHECK_FALSE(inside_worker(worker_of("7.0", "8", "0")));  // sbatch
  CHECK_FALSE(inside_worker(worker_of("7.0", "8", "")));   // its script
  CHECK_FALSE(inside_worker(worker_of("", "7", "0")));     // srun, in a worker outside Slurm
  CHECK_FALSE(inside_worker({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}));
  CHECK_FALSE(inside_worker({}));
}

TEST_CASE("outer_launcher: what the outer launcher was told of its nodes is no option of the inner one", "[unit]") {
  auto environment = worker_of("7.0", "7", "0");
  environment.merge(Environment{{"PET_NNODES", "2"}, {"PET_RDZV_ENDPOINT", "node1"}, {"PET_NPROC_PER_NODE", "4"}});

  auto const inner = without_outer_options(environment);

  CHECK_FALSE(inner.contains("PET_NNODES"));
  CHECK_FALSE(inner.contains("PET_RDZV_ENDPOINT"));
  CHECK(inner.contains("PET_NPROC_PER_NODE"));
  environment["SLURM_STEP_ID"] = "1";
  CHECK(without_outer_options(environment) == environment);
}
