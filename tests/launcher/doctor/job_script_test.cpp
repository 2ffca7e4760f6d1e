#include "launcher/doctor/job_script.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test

TEST_CASE("job_script: sinfo's lines are read, and what is none is left out", "[unit]") {
  CHECK(read_sinfo("debug*|up|4|48+|(null)|30:00\n"
                   "gpu|up|16|96|gpu:a100:4(S:0-1),gpu:v100:2,shard:8|1-00:00:00\n"
                   "old|down|9|8|gpu:8|infinite\n"
                   "sinfo: error\n\n|up|1|1|gpu:1|1\n") ==
        std::vector<NodeKind>{{"debug", true, 4, 48, 0, "30:00"}, {"gpu", false, 16, 96, 6, "1-00:00:00"}});
  CHECK(read_sinfo("a|up|x|y|gpu:|z") == std::vector<NodeKind>{{"a", false, 0, 0, 0, "z"}});
}

TEST_CASE("job_script: GPUs come first, then the default partition", "[unit]") {
  std::vector<NodeKind> const kinds = {{"cpu", true, 99, 64, 0, "infinite"}, {"gpu", false, 16, 96, 8, "10:00"}};
  CHECK(job_script(kinds, "train.py", "") ==
        "#!/bin/bash\n"
        "# Written by cxxrun --init. To change: the number of nodes, the time, and the last lines.\n"
        "#   cpu (the default): 99 x 64 CPUs, no GPUs, at most infinite\n"
        "#   gpu: 16 x 96 CPUs, 8 GPUs, at most 10:00\n"
        "#SBATCH --partition=gpu\n"
        "#SBATCH --nodes=2\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --cpus-per-task=96\n"
        "#SBATCH --gpus-per-node=8\n"
        "#SBATCH --time=10:00\n"
        "#SBATCH --output=%x-%j.out\n\n"
        "# srun does not take --cpus-per-task from sbatch (Slurm 22.05 and 23.02).\n"
        "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n"
        "# A table of what is wrong with the nodes; leave it out once all is well.\n"
        "srun cxxrun --doctor train.py || exit\n"
        "srun cxxrun train.py\n");
  CHECK(job_script({{"a", false, 5, 1, 1, ""}, {"b", true, 1, 1, 1, ""}}, "t", "")
            .find("--partition=b\n#SBATCH --nodes=1\n") != std::string::npos);
  CHECK(job_script(kinds, "--nnodes=2:4 t", "", "2-4").find("\n#SBATCH --nodes=2-4\n") != std::string::npos);
}

TEST_CASE("job_script: without Slurm it says what to fill in, and why", "[unit]") {
  auto const text = job_script({}, "train.py", "no sinfo in PATH here");
  CHECK(text.find("# no sinfo in PATH here: choose partition and GPUs yourself.\n#SBATCH --partition=NAME\n") !=
        std::string::npos);
  CHECK(text.find("\n##SBATCH --gpus-per-node=8\n") != std::string::npos);
  CHECK(text.find("CPUS_PER_TASK") == std::string::npos);
}
