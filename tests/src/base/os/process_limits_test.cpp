#include "src/base/os/process_limits.hpp"

#include <cmath>
#include <fstream>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/planted_cgroup.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

void write_text(std::filesystem::path const& path, std::string const& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

/// The quota in percent of a CPU, or "none", in a process that `directory` tells of its control groups.
std::string quota_by(std::string const& directory) {
  auto const body = [&](int) {
    auto const own = "/proc/" + std::to_string(getpid()) + "/";
    bool planted = unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    for (std::string const name : {"cgroup", "mountinfo"}) {
      planted =
          planted && mount((directory + "/" + name).c_str(), (own + name).c_str(), nullptr, MS_BIND, nullptr) == 0;
    }
    auto const quota = os::cpu_quota();
    return !planted ? "cannot mount" : quota ? std::to_string(std::lround(*quota * 100)) : std::string("none");
  };
  return run_ranks(1, body)[0].said;
}

}  // namespace

TEST_CASE("memory group: kills of the own group, limits of those above it, in both versions", "[process]") {
  for (bool const unified : {false, true}) {
    INFO(unified);
    PlantedCgroup planted(unified);
    os::MemoryGroup const group(planted.root());
    CHECK(group.read() == MemoryCounters{0, 40, {{PlantedCgroup::step(), 104'857'600, 12'582'912, 0}}});
    planted.count(2, 5);
    planted.count_machine(42);
    CHECK(group.read() == MemoryCounters{2, 42, {{PlantedCgroup::step(), 104'857'600, 12'582'912, 5}}});
  }
}

TEST_CASE("memory group: where nothing is to be read nothing is counted", "[process]") {
  TempDir const empty;
  CHECK(os::MemoryGroup(empty.path()).read() == MemoryCounters{});
  PlantedCgroup const planted(true);
  std::filesystem::remove_all(planted.root() + "/cg");
  CHECK(os::MemoryGroup(planted.root()).read() == MemoryCounters{std::nullopt, 40, {}});
}

TEST_CASE("memory group: this kernel's own files can be read", "[process]") {
  CHECK(os::MemoryGroup().read().machine.has_value());
}

TEST_CASE("cpu_quota: the least of the own control group and those above it, in both versions", "[process]") {
  if (geteuid() != 0) {
    WARN("skipped: mounting needs root");
    return;
  }
  bool const unified = GENERATE(false, true);
  CAPTURE(unified);
  TempDir const directory;
  std::string const at = directory.path();
  auto const limit = [&](std::string const& group, std::string const& time) {
    auto const place = at + "/cg" + group;
    if (unified) {
      write_text(place + "/cpu.max", (time == "-1" ? "max" : time) + " 100000");
    } else {
      write_text(place + "/cpu.cfs_quota_us", time);
      write_text(place + "/cpu.cfs_period_us", "100000");
    }
  };
  write_text(at + "/cgroup", unified ? "0::/job/step" : "3:cpu,cpuacct:/job/step\n0::/");
  write_text(at + "/mountinfo",
             "30 24 0:26 / " + at + "/cg rw - " + (unified ? "cgroup2 cgroup2 rw" : "cgroup cgroup rw,cpu,cpuacct"));
  for (auto const* const group : {"", "/job", "/job/step"}) {
    limit(group, "-1");
  }
  auto const without = quota_by(at);
  if (without == "cannot mount") {
    WARN("skipped: this sandbox lets nobody mount");
    return;
  }
  CHECK(without == "none");
  limit("/job", "250000");
  CHECK(quota_by(at) == "250");
  limit("/job/step", "50000");
  CHECK(quota_by(at) == "50");
}
