#include "src/base/core/memory_counters.hpp"

#include "tests/support/catch.hpp"

using cxxrun::counter_in;
using cxxrun::GroupHierarchy;
using cxxrun::limit_in;

namespace {

constexpr char const* kSecond = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

std::string first(std::string const& root = "/", std::string const& point = "/sys/fs/cgroup/memory") {
  return "29 24 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n35 24 0:33 " + root + " " + point +
         " rw,relatime shared:7 master:1 - cgroup cgroup rw,memory\n";
}

std::optional<GroupHierarchy> find_groups(std::string const& cgroup, std::string const& mountinfo,
                                          std::string const& controller = "memory") {
  return cxxrun::find_groups(cgroup, mountinfo, controller);
}

}  // namespace

TEST_CASE("memory counters: the groups of version 1, from the process's own to the topmost", "[unit]") {
  CHECK(find_groups("5:cpu:/x\n4:memory:/slurm/job_3/step_0\n0::/y\n", first() + kSecond) ==
        GroupHierarchy{false, "/sys/fs/cgroup/memory", "", {"/slurm/job_3/step_0", "/slurm/job_3", "/slurm", ""}});
  CHECK(find_groups("4:cpu,memory:/\n", first()) == GroupHierarchy{false, "/sys/fs/cgroup/memory", "", {""}});
}

TEST_CASE("memory counters: of another controller its own groups", "[unit]") {
  CHECK(find_groups("5:cpu,cpuacct:/x\n4:memory:/y\n", first(), "cpu") ==
        GroupHierarchy{false, "/sys/fs/cgroup/cpu", "", {"/x", ""}});
  CHECK(find_groups("4:memory:/y\n0::/a\n", first() + kSecond, "pids") ==
        GroupHierarchy{true, "/sys/fs/cgroup", "", {"/a", ""}});
}

TEST_CASE("memory counters: version 2 where version 1 has no memory controller", "[unit]") {
  GroupHierarchy const second{true, "/sys/fs/cgroup", "", {"/a.slice/b", "/a.slice", ""}};
  CHECK(find_groups("0::/a.slice/b\n", kSecond) == second);
  CHECK(find_groups("5:cpu:/x\n0::/a.slice/b\n",
                    "29 24 0:25 / /c rw - cgroup cgroup rw,cpu\n" + std::string(kSecond)) == second);
  CHECK(find_groups("4:memory:/gone\n0::/a.slice/b\n", kSecond) == second);
}

TEST_CASE("memory counters: of a container that sees a part of the hierarchy, that part", "[unit]") {
  CHECK(find_groups("4:memory:/docker/0f/x\n", first("/docker/0f", "/m\\040n")) ==
        GroupHierarchy{false, "/m n", "/docker/0f", {"/x", ""}});
  CHECK(find_groups("4:memory:/docker/0f\n", first("/docker/0f")) ==
        GroupHierarchy{false, "/sys/fs/cgroup/memory", "/docker/0f", {""}});
}

TEST_CASE("memory counters: nothing where the group is not to be seen, or the texts are broken", "[unit]") {
  CHECK_FALSE(find_groups("", ""));
  CHECK_FALSE(find_groups("4:memory:/docker/0f\n", first("/docker/other")));
  CHECK_FALSE(find_groups("4:memory:/docker/0fa\n", first("/docker/0f")));
  CHECK_FALSE(find_groups("0::/../../x\n", kSecond));
  CHECK_FALSE(find_groups("4:memory\n4\n::\n", first()));
  CHECK_FALSE(find_groups("4:memory:relative\n", first()));
  CHECK_FALSE(find_groups("0::/x\n", "30 24 0:26 / /sys/fs/cgroup - cgroup2\n-\n - - - -\n"));
}

TEST_CASE("memory counters: numbers by their names, limits that are none", "[unit]") {
  CHECK(counter_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", "oom_kill") == 3);
  CHECK(counter_in("low 0\nmax 8\noom 2\noom_kill 1\n", "oom") == 2);
  CHECK_FALSE(counter_in("oom_kill x\n", "oom_kill"));
  CHECK_FALSE(counter_in("oom_kill", "oom_kill"));
  CHECK_FALSE(counter_in("", "oom_kill"));
  CHECK(limit_in("104857600\n") == 104'857'600);
  CHECK_FALSE(limit_in("max\n"));
  CHECK_FALSE(limit_in("9223372036854771712\n"));
  CHECK_FALSE(limit_in(""));
}
