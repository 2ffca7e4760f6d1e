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
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", "GPU-1f2e, GPU-77"}}) == 2U);
  CHECK(named_devices({{"ROCR_VISIBLE_DEVICES", "4,5"}}) == 2U);
  CHECK(named_devices({{"HIP_VISIBLE_DEVICES", "6"}}) == 1U);
  CHECK(named_devices({{"ZE_AFFINITY_MASK", "0.0,0.1,1"}}) == 3U);
}

TEST_CASE("visible_devices: a worker's GPU is the one that its LOCAL_RANK chooses of those that it sees", "[unit]") {
  auto const of = [](char const* local_rank, Environment environment) {
    environment["LOCAL_RANK"] = local_rank;
    return gpu_of(environment);
  };
  CHECK(of("3", {}) == "3");
  CHECK(of("1", {{"CUDA_VISIBLE_DEVICES", "4, GPU-7f"}}) == "GPU-7f");
  CHECK(of("2", {{"CUDA_VISIBLE_DEVICES", "4,5"}}) == "4");  // shared
  CHECK(of("0", {{"CUDA_VISIBLE_DEVICES", ""}}).empty());
  CHECK(of("0", {{"HIP_VISIBLE_DEVICES", "4"}}).empty());
  CHECK(of("x", {}).empty());
  CHECK(gpu_of({}).empty());
}

TEST_CASE("visible_devices: HIP counts among the devices that ROCR leaves", "[unit]") {
  auto const both = [](char const* rocr, char const* hip) {
    return Environment{{"ROCR_VISIBLE_DEVICES", rocr}, {"HIP_VISIBLE_DEVICES", hip}, {"CUDA_VISIBLE_DEVICES", rocr}};
  };
  CHECK(named_devices(both("0,1", "0")) == 1U);
  CHECK(named_devices(both("2,3", "2,3")) == 0U);
  CHECK(named_devices(both("2,3", "1,2,0")) == 1U);
  CHECK(named_devices(both("GPU-5c,GPU-7d", "1,0")) == 2U);
  CHECK(named_devices(both("2,3", "GPU-5c")) == 1U);

  CHECK(hidden_devices(both("2,3", "2,3"), false) ==
        "HIP_VISIBLE_DEVICES=2,3 counts among the 2 devices of ROCR_VISIBLE_DEVICES=2,3: HIP sees none; unset "
        "HIP_VISIBLE_DEVICES to use all of them");
  CHECK(hidden_devices(both("2,3", "1,2,0"), false).find("HIP sees 1;") != std::string::npos);
  CHECK(hidden_devices(both("2,3", "0"), true).empty());
}

TEST_CASE("visible_devices: on AMD's GPUs CUDA's list counts among ROCR's, elsewhere Slurm sets both alike", "[unit]") {
  Environment const slurm{{"ROCR_VISIBLE_DEVICES", "2,3"}, {"CUDA_VISIBLE_DEVICES", "2,3"}};
  CHECK(hidden_devices(slurm, false).empty());
  CHECK(hidden_devices(slurm, true) ==
        "CUDA_VISIBLE_DEVICES=2,3 counts among the 2 devices of ROCR_VISIBLE_DEVICES=2,3: HIP sees none; unset "
        "CUDA_VISIBLE_DEVICES to use all of them");
  CHECK(hidden_devices({{"ROCR_VISIBLE_DEVICES", "0,1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}, true).empty());
  CHECK(hidden_devices({{"CUDA_VISIBLE_DEVICES", "2,3"}}, true).empty());
  CHECK(named_devices(slurm) == 2U);
}

TEST_CASE("visible_devices: on AMD's GPUs HIP's list replaces CUDA's, which is told where they differ in length",
          "[unit]") {
  Environment const two_lists{{"HIP_VISIBLE_DEVICES", "0,1"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}};
  CHECK(hidden_devices(two_lists, true) ==
        "HIP_VISIBLE_DEVICES=0,1 replaces CUDA_VISIBLE_DEVICES=0,1,2,3: HIP sees 2, and workers are counted by the "
        "other; unset one of them");
  CHECK(hidden_devices(two_lists, false).empty());
  CHECK(hidden_devices({{"HIP_VISIBLE_DEVICES", "2,3"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}, true).empty());
}

TEST_CASE("visible_devices: beside a device of MIG CUDA shows no other, and of several one", "[unit]") {
  Environment const mig{{"CUDA_VISIBLE_DEVICES", "MIG-1f,MIG-GPU-77/1/0"}};
  CHECK(mig_devices(mig) == 2U);
  CHECK(named_devices({{"CUDA_VISIBLE_DEVICES", "GPU-1f, MIG-2e"}}) == 1U);
  CHECK_FALSE(mig_devices({{"CUDA_VISIBLE_DEVICES", "0,1"}}).has_value());
  CHECK_FALSE(mig_devices({{"ROCR_VISIBLE_DEVICES", "MIG-1f"}}).has_value());
  CHECK(devices_of_workers(mig, 2) ==
        "CUDA shows a process one MIG device: each worker sees one of the 2 as its device 0, and LOCAL_RANK is 0, as "
        "with --virtual-local-rank");
  CHECK(devices_of_workers(mig, 3) == "3 workers share 2 MIG devices, of which each worker sees one as its device 0");
  CHECK(devices_of_workers({{"CUDA_VISIBLE_DEVICES", "MIG-1f"}}, 1).empty());
}

TEST_CASE("visible_devices: partitions that nobody names are told, as all workers would get the first", "[unit]") {
  auto const told = [](Environment const& environment, std::vector<std::uint32_t> const& partitioned,
                       unsigned workers) { return !unnamed_partitions(environment, partitioned, workers).empty(); };
  CHECK(told({}, {0}, 2));
  CHECK(told({{"CUDA_VISIBLE_DEVICES", "1,0"}}, {0}, 2));
  CHECK_FALSE(told({{"CUDA_VISIBLE_DEVICES", "1,2"}}, {0}, 2));
  CHECK_FALSE(told({{"CUDA_VISIBLE_DEVICES", "MIG-1f,MIG-2e"}}, {0}, 2));
  CHECK_FALSE(told({}, {0}, 1));
  CHECK_FALSE(told({}, {}, 2));
}

TEST_CASE("visible_devices: workers of one agent that are more than its devices are told", "[unit]") {
  CHECK(devices_of_workers({{"CUDA_VISIBLE_DEVICES", "0,1"}}, 4) ==
        "4 workers share 2 GPUs: a worker's GPU is LOCAL_RANK modulo 2");
  CHECK(devices_of_workers({{"CUDA_VISIBLE_DEVICES", "0,1"}}, 2).empty());
  CHECK(devices_of_workers({{"CUDA_VISIBLE_DEVICES", ""}}, 2).empty());
  CHECK(devices_of_workers({}, 8).empty());
}

TEST_CASE("visible_devices: one worker's device is its entry of the list, or its number", "[unit]") {
  CHECK(device_of({}, 3) == DeviceChoice{"CUDA_VISIBLE_DEVICES", "3"});
  CHECK(device_of({{"CUDA_VISIBLE_DEVICES", "4, GPU-1f2e ,5"}}, 1) == DeviceChoice{"CUDA_VISIBLE_DEVICES", "GPU-1f2e"});
  CHECK(device_of({{"CUDA_VISIBLE_DEVICES", ""}}, 0) == DeviceChoice{"CUDA_VISIBLE_DEVICES", ""});
  CHECK(device_of({{"ROCR_VISIBLE_DEVICES", "4,5"}}, 1) == DeviceChoice{"CUDA_VISIBLE_DEVICES", "1"});
  CHECK(device_of({{"HIP_VISIBLE_DEVICES", "4,5"}}, 1) == DeviceChoice{"HIP_VISIBLE_DEVICES", "5"});
  CHECK(device_of({{"ZE_AFFINITY_MASK", "0.0,0.1"}}, 1) == DeviceChoice{"ZE_AFFINITY_MASK", "0.1"});
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
    return devices_of_tasks(recorded_environment("gpu-bind.txt", section), 2).own;
  };

  CHECK(own("single 1"));
  CHECK(own("map 0"));
  CHECK(own("mask 1"));
  CHECK(own("per_task 1"));
  CHECK_FALSE(own("closest 1"));
  CHECK_FALSE(own("none 1"));
}

namespace {

/// The result for tasks that see `list` of the `allotted` GPUs of the step ("": Slurm has none), with that binding.
TaskDevices found(std::uint32_t tasks, char const* list, char const* allotted, char const* binding = "none") {
  Environment environment{{"CUDA_VISIBLE_DEVICES", list}, {"SLURM_GPU_BIND", binding}};
  if (*allotted != '\0') {
    environment["SLURM_GPUS_ON_NODE"] = allotted;
  }
  return devices_of_tasks(environment, tasks);
}

bool says(TaskDevices const& devices, char const* words) {
  return devices.line.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("visible_devices: fewer devices than tasks are no proof that each task has its own", "[unit]") {
  CHECK(found(8, "0,1,2,3", "4") == TaskDevices{false, "8 tasks share 4 GPUs: a worker's GPU is LOCAL_RANK modulo 4"});
  CHECK(found(3, "0,1", "2") == TaskDevices{false, "3 tasks share 2 GPUs: a worker's GPU is LOCAL_RANK modulo 2"});
  CHECK_FALSE(found(3, "0,1", "").own);
  CHECK(says(found(3, "0,1", ""), "3 tasks share 2 GPUs"));
  CHECK(found(2, "0,1", "2") == TaskDevices{});
  CHECK(found(2, "0,1,2,3", "4") == TaskDevices{});
  CHECK(found(2, "", "4") == TaskDevices{});
  CHECK(devices_of_tasks({}, 2) == TaskDevices{});
}

TEST_CASE("visible_devices: one visible device is number 0, and only Slurm's count tells whether others have it",
          "[unit]") {
  CHECK(found(4, "0", "1").own);
  CHECK(says(found(4, "0", "1"), "4 tasks share 1 GPU: LOCAL_RANK is 0"));
  CHECK(found(4, "3", "4").own);  // a script before cxxrun: CUDA_VISIBLE_DEVICES=$SLURM_LOCALID
  CHECK(says(found(4, "3", "4"), "each task sees GPUs of its own"));
  CHECK(found(4, "3", "").own);
  CHECK(says(found(4, "3", ""), "nothing says that it is its own"));
}

TEST_CASE("visible_devices: a part that all tasks together cannot have alone is shared, whatever bound it", "[unit]") {
  CHECK(found(2, "2,3", "4").own);
  CHECK(says(found(4, "1", "2", "single:2"), "4 tasks share 2 GPUs: LOCAL_RANK is 0"));
  CHECK(found(4, "2,3", "4", "closest") ==
        TaskDevices{false, "each task sees 2 of 4 GPUs, and not alone: a worker's GPU is LOCAL_RANK modulo 2"});
  CHECK_FALSE(found(4, "0,1", "4", "mask_gpu:0x3,0x3,0xc,0xc").own);
  CHECK(found(2, "0,1", "4", "gres/gpu:mask:0x3,0xc").own);
  CHECK_FALSE(found(2, "0,1", "8", "gres/gpu:mask:0x3,0x6").own);
  for (char const* const twice :
       {"gpu:single:2", "gpu:verbose,map_gpu:0,0,1,1", "map_gpu:0*2,1*2", "gres/gpu:map:0,1"}) {
    CAPTURE(twice);
    CHECK(says(found(4, "0", "4", twice), "each task sees 1 of 4 GPUs, and not alone: LOCAL_RANK is 0"));
  }
  CHECK(says(found(4, "0", "4", "map_gpu:3,2,1,0"), "each task sees GPUs of its own"));
  CHECK(says(found(4, "0", "4", "single:1"), "each task sees GPUs of its own"));
  CHECK(says(found(2, "0", "4", "gpu:map_gpu:0,1+nic:map:1,1"), "each task sees GPUs of its own"));
  CHECK(found(2, "0,1", "", "gres/gpu:map:0,1").own);
  CHECK(devices_of_tasks({{"ROCR_VISIBLE_DEVICES", "0,1"}, {"SLURM_GPU_BIND", "verbose,single:1"}}, 2).own);
}

TEST_CASE("visible_devices: tasks that see the same devices of MIG have one each", "[unit]") {
  CHECK(found(2, "MIG-1,MIG-2", "2") == TaskDevices{});
  CHECK(found(4, "MIG-1,MIG-2", "2").line ==
        "4 tasks share 2 MIG devices, of which each worker sees one as its device 0");
  CHECK(found(2, "MIG-2", "2").own);
}
