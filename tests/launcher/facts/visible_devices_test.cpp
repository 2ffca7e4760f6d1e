#include "launcher/facts/visible_devices.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::testing::recorded_environment;

TEST_CASE("visible_devices: the list that is set first counts, up to what is no device", "[unit]") {
  CHECK_FALSE(named_devices({}).has_value());
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}) == 4U);
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", ""}}) == 0U);
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}) == 0U);
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", "0,-1,2"}}) == 1U);
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", "GPU-1f2e, MIG-77"}}) == 2U);
  CHECK(named_devices({{"ROCR_VISIBLE_DEVICES", "0,1"}, {"HIP_VISIBLE_DEVICES", "0"}}) == 2U);
  CHECK(named_devices({{"ZE_AFFINITY_MASK", "0.0,0.1,1"}}) == 3U);
}

TEST_CASE("visible_devices: one worker's device is its entry of the list, or its number", "[unit]") {
  CHECK(device_of({}, 3) == "3");
  CHECK(device_of({{"CUDA_VISIBLE_DEVICES", "4, GPU-1f2e ,MIG-77"}}, 1) == "GPU-1f2e");
  CHECK(device_of({{"CUDA_VISIBLE_DEVICES", ""}}, 0) == "");
  CHECK_FALSE(device_of({{"CUDA_VISIBLE_DEVICES", "4,5"}}, 2).has_value());
}

TEST_CASE("visible_devices: in every form of request Slurm's GPUs are counted", "[unit]") {
  for (auto const& [file, section] : std::map<std::string, std::string>{{"env-gpus-per-node.txt", "task 0 on node1"},
                                                                        {"env-gpus-per-task.txt", "task 0 on node1"},
                                                                        {"env-gpus-total.txt", "task 1 on node2"},
                                                                        {"env-gres.txt", "task 1 on node2"},
                                                                        {"sbatch-gpus-per-node.txt", "task 1 on node2"},
                                                                        {"sbatch-gpus-per-task.txt", "task 1 on node2"},
                                                                        {"sbatch-gres.txt", "task 1 on node2"},
                                                                        {"gpu-bind.txt", "none 0"}}) {
    CAPTURE(file);
    CHECK(slurm_devices(recorded_environment(file, section)) == 4U);
  }
  CHECK(slurm_devices(recorded_environment("env-gpus-per-task-4tasks.txt", "task 1 on node1")) == 1U);
}

TEST_CASE("visible_devices: without GPUs of Slurm's the node itself is to be asked", "[unit]") {
  CHECK_FALSE(slurm_devices(recorded_environment("env-plain.txt", "task 0 on node1")).has_value());
  CHECK_FALSE(slurm_devices({{"CUDA_VISIBLE_DEVICES", "0,1"}}).has_value());
  CHECK_FALSE(slurm_devices({{"SLURM_GPUS_ON_NODE", "4"}}).has_value());
  CHECK_FALSE(slurm_devices({{"SLURM_GPUS_ON_NODE", "many"}, {"SLURMD_NODENAME", "n"}}).has_value());
}

TEST_CASE("visible_devices: what Slurm bound to a task is the task's own, as recorded", "[unit]") {
  auto const own = [](char const* section) {
    return has_own_devices(recorded_environment("gpu-bind.txt", section), 2);
  };

  CHECK(own("single 1"));
  CHECK(own("map 0"));
  CHECK(own("mask 1"));
  CHECK(own("per_task 1"));
  CHECK_FALSE(own("closest 1"));
  CHECK_FALSE(own("none 1"));
}

TEST_CASE("visible_devices: fewer devices than tasks cannot be counted by task", "[unit]") {
  CHECK(has_own_devices({{"CUDA_VISIBLE_DEVICES", "0,1"}}, 3));
  CHECK_FALSE(has_own_devices({{"CUDA_VISIBLE_DEVICES", "0,1"}}, 2));
  CHECK_FALSE(has_own_devices({{"CUDA_VISIBLE_DEVICES", ""}}, 2));
  CHECK_FALSE(has_own_devices({}, 2));
  CHECK(has_own_devices({{"ROCR_VISIBLE_DEVICES", "0,1"}, {"SLURM_GPU_BIND", "verbose,single:1"}}, 2));
}
