// Reading a machine: this one, one that hwloc makes up, and GPUs from a made-up /proc and /sys.
#include "launcher/place/machine.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/base/os/system.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

void write(std::string const& path, std::string const& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

void add_gpu(std::string const& root, std::string const& bus, int minor, std::string const& uuid,
             std::string const& node) {
  write(root + "/proc/driver/nvidia/gpus/" + bus + "/information",
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 500\nGPU UUID: \t " + uuid + "\nBus Location: \t " + bus +
            "\nDevice Minor: \t " + std::to_string(minor) + "\nGPU Excluded:\t No\n");
  write(root + "/sys/bus/pci/devices/" + bus + "/numa_node", node + "\n");
}

}  // namespace

TEST_CASE("machine: every CPU we may use is in the topology of this machine", "[process]") {
  auto const machine = read_machine();
  REQUIRE(machine);
  for (auto const cpu : cxxrun::os::allowed_cpus()) {
    CHECK(std::any_of(machine->pus.begin(), machine->pus.end(), [cpu](Pu const& pu) { return pu.id == cpu; }));
  }
}

TEST_CASE("machine: a library that is there and broken is not called missing", "[unit]") {
  std::string const name = "libhwloc.so.15";
  CHECK(why_not_loaded(name + ": cannot open shared object file: No such file or directory") ==
        name + " is not installed here");
  for (std::string const& said :
       {name + ": cannot open shared object file: Permission denied", name + ": file too short",
        std::string("/opt/lib/") + name + ": invalid ELF header",
        std::string("libudev.so.1: cannot open shared object file: No such file or directory"),
        std::string("/lib/libm.so.6: version `GLIBC_2.38' not found")}) {
    CHECK(why_not_loaded(said) == name + " is here but cannot be loaded: " + said);
  }
}

TEST_CASE("machine: packages, NUMA nodes, caches and cores are told apart", "[process]") {
  setenv("HWLOC_SYNTHETIC", "package:2 [numa] l3:2 core:2 pu:2", 1);
  auto const machine = read_machine();
  unsetenv("HWLOC_SYNTHETIC");
  REQUIRE(machine);
  REQUIRE(machine->pus.size() == 16);
  for (auto const& pu : machine->pus) {
    CHECK(pu.core == pu.id / 2);
    CHECK(pu.l3 == pu.id / 4);
    CHECK(pu.numa == pu.id / 8);
    CHECK(pu.package == pu.id / 8);
  }
}

TEST_CASE("machine: GPUs in bus order with UUID and NUMA node, without those that may not be opened", "[process]") {
  cxxrun::test::TempDir const scratch;
  std::string const root = scratch.path();
  add_gpu(root, "0000:9b:00.0", 0, "GPU-b", "1");
  add_gpu(root, "0000:19:00.0", 1, "GPU-a", "0");
  add_gpu(root, "0000:3b:00.0", 2, "GPU-denied", "0");
  add_gpu(root, "0000:bb:00.0", 3, "GPU-c", "-1");
  for (auto const* const minor : {"0", "1", "3"}) {
    write(root + "/dev/nvidia" + minor, "");
  }
  auto const gpus = read_gpus(root);
  REQUIRE(gpus.size() == 3);
  CHECK(gpus[0].uuid == "GPU-a");
  CHECK(gpus[0].numa == 0U);
  CHECK(gpus[1].uuid == "GPU-b");
  CHECK(gpus[1].numa == 1U);
  CHECK(gpus[2].uuid == "GPU-c");
  CHECK_FALSE(gpus[2].numa.has_value());
  CHECK(read_gpus(root + "/nowhere").empty());
}
