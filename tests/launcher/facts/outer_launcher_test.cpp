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

TEST_CASE("mpi_identity: what tells one process its rank is told from what sets up a library", "[unit]") {
  for (char const* const name : {"PMI_RANK",
                                 "PMI_SIZE",
                                 "PMI_FD",
                                 "PMI_PORT",
                                 "PMI_JOBID",
                                 "PMI_SPAWNED",
                                 "PMI_CONTROL_PORT",
                                 "PMI2_FD",
                                 "PMIX_RANK",
                                 "PMIX_NAMESPACE",
                                 "PMIX_SERVER_URI41",
                                 "PMIX_SECURITY_MODE",
                                 "OMPI_COMM_WORLD_RANK",
                                 "OMPI_UNIVERSE_SIZE",
                                 "OMPI_MCA_ess",
                                 "OMPI_MCA_ess_base_vpid",
                                 "OMPI_MCA_orte_hnp_uri",
                                 "OMPI_MCA_pmix",
                                 "MPI_LOCALRANKID",
                                 "MPI_LOCALNRANKS",
                                 "PALS_RANKID",
                                 "PALS_LOCAL_RANKID",
                                 "MV2_COMM_WORLD_LOCAL_RANK",
                                 "HYDI_CONTROL_FD",
                                 "JSM_NAMESPACE_RANK"}) {
    CAPTURE(name);
    CHECK(is_mpi_identity(name));
  }
  for (char const* const name :
       {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_CC", "OMPI_CXXFLAGS", "PMIX_INSTALL_PREFIX", "OMPI_MCA_btl_tcp_if_include",
        "OMPI_MCA_plm_slurm_args", "PMIX_MCA_gds", "PMI_TIME", "PMI_FANOUT_OFF_HOST", "MPICH_GPU_SUPPORT_ENABLED",
        "I_MPI_PMI_LIBRARY", "MV2_USE_CUDA", "MPI_HOME", "SLURM_MPI_TYPE", "RANK", "SLURM_PROCID", "PMIX", "UCX_TLS"}) {
    CAPTURE(name);
    CHECK_FALSE(is_mpi_identity(name));
  }
  CHECK(without_mpi_identity({{"PMI_RANK", "1"}, {"PMI_TIME", "9"}, {"PATH", "/bin"}}) ==
        Environment{{"PMI_TIME", "9"}, {"PATH", "/bin"}});
}

TEST_CASE("mpi_identity: its descriptors are those that its variables name", "[unit]") {
  CHECK(mpi_descriptors({{"PMI_FD", "9"}, {"HYDI_CONTROL_FD", "7"}, {"PMI2_FD", "9"}, {"PMI_RANK", "5"}}) ==
        std::vector{7, 9});
  CHECK(mpi_descriptors({{"PMI_FD", "2"}, {"PMI2_FD", "-1"}, {"PALS_FD", "x"}, {"NOTIFY_FD", "4"}}).empty());
}

TEST_CASE("mpi_size: the processes of mpirun are counted by what it tells each of them", "[unit]") {
  CHECK(mpi_size({{"OMPI_COMM_WORLD_SIZE", "4"}}) == 4);
  CHECK(mpi_size({{"PMI_SIZE", "8"}}) == 8);
  CHECK(mpi_size({{"PMI_SIZE", "many"}}) == 1);
  CHECK(mpi_size({{"PMI_RANK", "3"}}) == 1);
  CHECK(mpi_size({}) == 1);
}
