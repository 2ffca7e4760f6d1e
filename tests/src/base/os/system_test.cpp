#include "src/base/os/system.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "src/base/os/process_info.hpp"
#include "src/base/os/spawn.hpp"
#include "tests/support/catch.hpp"

using cxxrun::os::count_gpus;
using cxxrun::os::SpawnStage;

TEST_CASE("system: CUDA_VISIBLE_DEVICES is counted as the driver does", "[unit]") {
  CHECK(count_gpus(std::nullopt, 8) == 8);
  CHECK(count_gpus("2,3", 8) == 2);
  CHECK(count_gpus(" 2 , 3 ", 8) == 2);
  CHECK(count_gpus("", 8) == 0);
  CHECK(count_gpus("-1", 8) == 0);
  CHECK(count_gpus("NoDevFiles", 8) == 0);
  CHECK(count_gpus("0,-1,1", 8) == 1);
  CHECK(count_gpus("0,8", 8) == 1);
  CHECK(count_gpus("99999999999999999999", 8) == 0);
  CHECK(count_gpus("GPU-8932f937,MIG-GPU-8932f937/1/2,MIG-41b35b4c", 1) == 3);
  CHECK(count_gpus("0,1", 0) == 0);
}

TEST_CASE("system: this machine has a name without dots and at least one CPU", "[unit]") {
  CHECK_FALSE(cxxrun::os::short_hostname().empty());
  CHECK(cxxrun::os::short_hostname().find('.') == std::string::npos);
  CHECK(cxxrun::os::usable_cpus() >= 1);
}

TEST_CASE("process_info: the name in /proc/PID/stat may look like the rest of it", "[unit]") {
  using cxxrun::os::parse_stat;
  using cxxrun::os::ProcessStat;
  CHECK(parse_stat("7 (sh) S 1 7 7 0") == ProcessStat{"sh", 'S', 1});
  CHECK(parse_stat("7 (a) R 9 (b) D 12 7") == ProcessStat{"a) R 9 (b", 'D', 12});
  CHECK(parse_stat("7 (sh) S 1 7 7 0 -1 4194564 12") == ProcessStat{"sh", 'S', 1, 4194564});
  CHECK(parse_stat("7 (sh) S 1 7 7 0 -1 4194564 12 0 0 0 5 6 0 0 20 0 1 0 8615300 2777088") ==
        ProcessStat{"sh", 'S', 1, 4194564, 8615300, 11});
  CHECK_FALSE(parse_stat("").has_value());
  CHECK_FALSE(parse_stat("7 (sh)").has_value());
  CHECK_FALSE(parse_stat("7 )sh( S 1").has_value());
  CHECK_FALSE(parse_stat("7 (sh) S x").has_value());
}

TEST_CASE("process_info: processor time and memory are read behind a name that looks like the rest of it", "[unit]") {
  using cxxrun::os::ProcessStat;
  CHECK(cxxrun::os::parse_stat(
            "7 (a) R 9 (b) D 12 7 7 0 -1 4194564 12 0 0 0 500 60 0 0 20 0 1 0 8615300 2777088 321 1844") ==
        ProcessStat{"a) R 9 (b", 'D', 12, 4194564, 8615300, 560, 321});
  auto const own = cxxrun::os::read_stat(getpid());
  REQUIRE(own);
  CHECK(own->state == 'R');
  CHECK(own->pages > 0);
}

TEST_CASE("system: a GPU is partitioned where the driver shows an instance of it", "[unit]") {
  auto const root = std::filesystem::temp_directory_path() / ("cxxrun-mig-" + std::to_string(getpid()));
  for (char const* const each :
       {"gpu10/mig/gi1/ci0", "gpu2/mig/gi7", "gpu0/mig", "gpu3", "mig/config", "gpus/mig/gi1"}) {
    std::filesystem::create_directories(root / each);
  }
  CHECK(cxxrun::os::partitioned_gpus(root) == std::vector<std::uint32_t>{2, 10});
  CHECK(cxxrun::os::partitioned_gpus(root / "none").empty());
  std::filesystem::remove_all(root);
}

TEST_CASE("system: GPUs of Intel are what renders and may be used", "[unit]") {
  auto const root = std::filesystem::temp_directory_path() / ("cxxrun-drm-" + std::to_string(getpid()));
  auto const add = [&root](char const* name, char const* maker, bool usable) {
    std::filesystem::create_directories(root / "class" / name / "device");
    std::ofstream(root / "class" / name / "device/vendor") << maker;
    std::filesystem::create_directories(root / "dri");
    if (usable) {
      std::ofstream(root / "dri" / name) << "";
    }
  };
  add("renderD128", "0x8086\n", true);
  add("renderD129", "0x8086\n", true);
  add("renderD130", "0x10de\n", true);
  add("renderD131", "0x8086\n", false);
  add("card0", "0x8086\n", true);
  CHECK(cxxrun::os::intel_gpus(root / "class", root / "dri") == 2);
  CHECK(cxxrun::os::intel_gpus(root / "absent", root / "dri") == 0);
  std::filesystem::remove_all(root);
}

TEST_CASE("process_info: a caught signal is bit N-1 of SigCgt", "[unit]") {
  using cxxrun::os::parse_catches;
  std::string const status = "SigIgn:\t0000000000001000\nSigCgt:\t0000000000000200\nCapInh:\t0\n";
  CHECK(parse_catches(status, SIGUSR1));
  CHECK_FALSE(parse_catches(status, SIGUSR2));
  CHECK_FALSE(parse_catches(status, 0));
  CHECK_FALSE(parse_catches(status, 65));
  CHECK_FALSE(parse_catches("SigCgt:", SIGUSR1));
  CHECK_FALSE(parse_catches("", SIGUSR1));
}

TEST_CASE("process_info: a process that is gone has no children and catches nothing", "[unit]") {
  pid_t const none = 4'194'305;  // above PID_MAX_LIMIT
  CHECK(cxxrun::os::children_of(none).empty());
  CHECK_FALSE(cxxrun::os::catches_signal(none, SIGTERM));
  CHECK(cxxrun::os::describe_stuck(none) == "pid 4194305, gone by now");
  CHECK(cxxrun::os::describe_stuck(getpid()).find("(unit_src), state R") != std::string::npos);
}

TEST_CASE("spawn: a failed start is explained with its remedy", "[unit]") {
  using cxxrun::os::explain_failed_start;
  CHECK(explain_failed_start("train", SpawnStage::find, ENOENT).find("'./train'") != std::string::npos);
  CHECK(explain_failed_start("./train", SpawnStage::find, ENOENT) ==
        "cannot start './train': No such file or directory; is the path right, and its file system mounted on this "
        "node?");
  CHECK(explain_failed_start("./train", SpawnStage::exec, ENOENT).find("interpreter") != std::string::npos);
  CHECK(explain_failed_start("./train", SpawnStage::exec, ENOEXEC).find("#!") != std::string::npos);
  CHECK(explain_failed_start("./train", SpawnStage::find, EACCES).find("chmod +x") != std::string::npos);
  CHECK(explain_failed_start("./train", SpawnStage::fork, EAGAIN).find("ulimit -u") != std::string::npos);
}

TEST_CASE("process_info: what cannot be read when it is open is no text, as of a process that has just ended",
          "[unit]") {
  CHECK(cxxrun::os::read_text("/").empty());  // open() takes a directory, and read() does not
  CHECK(cxxrun::os::read_text("/nonexistent").empty());
}
