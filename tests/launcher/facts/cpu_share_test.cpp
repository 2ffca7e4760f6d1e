#include "launcher/facts/cpu_share.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

std::string only(Environment environment, CpuUse const& use) {
  environment.emplace("SLURM_JOB_ID", "7");
  auto const lines = cpu_warnings(environment, use);
  CHECK(lines.size() == 1);
  return lines.empty() ? "" : lines.front();
}

}  // namespace

TEST_CASE("cpu_share: fewer CPUs than the job has for the task are named with what passes them on", "[unit]") {
  CHECK(only({{"SLURM_CPUS_PER_TASK", "64"}}, {1, 8, 1}) ==
        "8 workers on 1 CPU of the 64 that the job has for this task (SLURM_CPUS_PER_TASK): export "
        "SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun, or give srun -c N; where srun is called below another "
        "srun, unset SLURM_CPU_BIND first");
  CHECK(only({{"SLURM_CPUS_PER_TASK", "64"}}, {32, 8, 1}).starts_with("8 workers on 32 CPUs of the 64"));
  CHECK(only({}, {2, 8, 1}).starts_with("8 workers on 2 CPUs: #SBATCH --cpus-per-task=N asks for more"));
}

TEST_CASE("cpu_share: a step that has what it needs is told nothing, nor is a worker's own launcher", "[unit]") {
  Environment const job{{"SLURM_JOB_ID", "7"}, {"SLURM_CPUS_PER_TASK", "64"}, {"SLURM_CPUS_ON_NODE", "64"}};
  CHECK(cpu_warnings(job, {64, 8, 1}).empty());
  CHECK(cpu_warnings({{"SLURM_CPUS_PER_TASK", "64"}}, {1, 8, 1}).empty());
  Environment inner = job;
  inner.merge(Environment{{"CXXRUN_RUN_ID", "7"}, {"CXXRUN_JOB_STEP", "7"}});
  CHECK(cpu_warnings(inner, {8, 1, 1}).empty());
  CHECK(cpu_warnings({{"SLURM_JOB_ID", "7"}, {"SLURM_CPUS_PER_TASK", "x"}}, {2, 2, 1}).empty());
}

TEST_CASE("cpu_share: threads of OpenMP that are more than the CPUs are counted", "[unit]") {
  CHECK(only({{"OMP_NUM_THREADS", "64"}, {"SLURM_CPUS_PER_TASK", "64"}}, {64, 8, 1}) ==
        "OMP_NUM_THREADS=64 in 8 workers: 512 threads on the 64 CPUs of this task; unset it, and each worker gets 8");
  CHECK(only({{"OMP_NUM_THREADS", "64"}, {"SLURM_CPUS_ON_NODE", "64"}}, {64, 1, 4})
            .find("64 threads on the 16 CPUs of this task") != std::string::npos);
  CHECK(cpu_warnings({{"SLURM_JOB_ID", "7"}, {"OMP_NUM_THREADS", "8"}}, {64, 8, 1}).empty());
}

TEST_CASE("cpu_share: tasks that Slurm has not bound count with their part of the node", "[unit]") {
  CHECK(cpus_of_task({{"SLURM_CPUS_ON_NODE", "64"}}, {64, 1, 4}) == 16);
  CHECK(cpus_of_task({{"SLURM_CPUS_ON_NODE", "64"}, {"SLURM_CPUS_PER_TASK", "8"}}, {64, 1, 4}) == 8);
  CHECK(cpus_of_task({{"SLURM_CPUS_PER_TASK", "8"}}, {64, 1, 4}) == 8);
  CHECK(cpus_of_task({{"SLURM_CPUS_ON_NODE", "64"}, {"SLURM_CPUS_PER_TASK", "16"}}, {16, 1, 4}) == 16);  // bound
  CHECK(cpus_of_task({{"SLURM_CPUS_PER_TASK", "8"}}, {64, 8, 1}) == 64);  // alone: what it may use
  CHECK(cpus_of_task({}, {64, 1, 4}) == 64);
  CHECK(cpus_of_task({{"SLURM_CPUS_ON_NODE", "2"}}, {2, 1, 4}) == 1);
  CHECK(only({{"SLURM_CPUS_ON_NODE", "64"}}, {64, 1, 4}) ==
        "the 4 tasks of this node share 64 CPUs: OMP_NUM_THREADS is for 16; srun --cpu-bind=cores binds each to its "
        "own");
}
