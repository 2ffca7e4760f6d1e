#include "src/base/core/limits.hpp"

#include <cerrno>

#include "tests/support/catch.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using cxxrun::test::has;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

Limits with(void (*change)(Limits&)) {
  Limits limits;
  change(limits);
  return limits;
}

}  // namespace

TEST_CASE("limits: a process that cannot be made is one of its user's, when that is the limit", "[unit]") {
  auto const found = reached_limit(EAGAIN, with([](Limits& limits) { limits.tasks = {4, 4096}; }));
  CHECK(found.limit == "the limit is 4 processes and threads of this user on this node (ulimit -u)");
  CHECK(found.remedy == "raise it with `ulimit -u 4096` before cxxrun; or end what runs here: ps -L -u $USER shows it");
}

TEST_CASE("limits: root is not held to the number of its processes", "[unit]") {
  auto const root = with([](Limits& limits) {
    limits.tasks = {4, 4};
    limits.privileged = true;
  });
  CHECK(reached_limit(EAGAIN, root) == ReachedLimit{});
  CHECK(has(explain_refusal("cannot start x", EAGAIN, root), "pids.max"));
}

TEST_CASE("limits: a control group that is full goes before the limit of the user", "[unit]") {
  auto limits = with([](Limits& all) {
    all.tasks = {100, 100};
    all.groups = {{"/a/b", 1000, 3}, {"/a", 64, 60}};
  });
  CHECK(reached_limit(EAGAIN, limits).limit ==
        "the limit is 64 processes and threads in control group /a (pids.max), and 60 are there");
  CHECK(has(reached_limit(EAGAIN, limits).remedy, "TasksMax"));
  limits.groups.back().now = 20;
  CHECK(has(reached_limit(EAGAIN, limits).limit, "ulimit -u"));
}

TEST_CASE("limits: no room for the stack of a thread has the errno of too many of them", "[unit]") {
  auto limits = with([](Limits& all) {
    all.tasks = {100, 100};
    all.address_space = {200 * kMiB, std::nullopt};
    all.mapped = 150 * kMiB;
  });
  CHECK(reached_limit(EAGAIN, limits).limit == "the limit is 200 MiB of address space (ulimit -v)");
  CHECK(reached_limit(ENOMEM, limits) == reached_limit(EAGAIN, limits));
  limits.mapped = 10 * kMiB;
  CHECK(has(reached_limit(EAGAIN, limits).limit, "ulimit -u"));
  CHECK(reached_limit(ENOMEM, limits) == ReachedLimit{});
}

TEST_CASE("limits: whoever may raise a limit is told the command, else whom to ask", "[unit]") {
  auto const open = reached_limit(EMFILE, with([](Limits& limits) { limits.files = {1024, 4096}; }));
  CHECK(open.limit == "the limit is 1024 open files (ulimit -n)");
  CHECK(open.remedy == "raise it with `ulimit -n 4096` before cxxrun");
  CHECK(has(reached_limit(EMFILE, with([](Limits& limits) {
                            limits.files = {1024, std::nullopt};
                          }))
                .remedy,
            "`ulimit -n 65536`"));
  auto const closed = reached_limit(EMFILE, with([](Limits& limits) { limits.files = {64, 64}; })).remedy;
  CHECK(has(closed, "ulimit -Hn"));
  CHECK(has(closed, "LimitNOFILE"));
}

TEST_CASE("limits: under Slurm the remedy is where Slurm takes limits from", "[unit]") {
  auto limits = with([](Limits& all) {
    all.files = {64, 4096};
    all.of_slurm = true;
  });
  CHECK(has(reached_limit(EMFILE, limits).remedy, "PropagateResourceLimits in slurm.conf"));
  limits.files.hard = 64;
  CHECK(has(reached_limit(EMFILE, limits).remedy, "LimitNOFILE of slurmd, PropagateResourceLimitsExcept=NOFILE"));
}

TEST_CASE("limits: what no limit of the process explains says where to look", "[unit]") {
  CHECK(explain_refusal("cannot start x", ENFILE, {}) ==
        "cannot start x: Too many open files in system; all open files of the node: sysctl fs.file-nr shows them, "
        "fs.file-max is the limit");
  CHECK(has(explain_refusal("x", ENOMEM, {}), "--mem"));
  CHECK(has(explain_refusal("x", EMFILE, {}), "ulimit -a"));
  CHECK(reached_limit(0, {}) == ReachedLimit{});
}

TEST_CASE("limits: the limit on the size of files, a full disk and a quota are told apart", "[unit]") {
  CHECK(reached_limit(EFBIG, with([](Limits& limits) {
                        limits.file_size = {1024, 1024};
                      }))
            .limit == "the limit is 1 KiB per file (ulimit -f)");
  CHECK(room_for("/data/a b", ENOSPC) == "free space there: df -h '/data/a b' and df -i show it");
  CHECK(has(room_for("/data", EDQUOT), "quota -s"));
  CHECK(has(room_for("/data", EFBIG), "ulimit -f"));
  CHECK(room_for("/data", EACCES).empty());
}

namespace {

constexpr char const* kSecond = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

std::string first(std::string const& root = "/", std::string const& point = "/sys/fs/cgroup/memory") {
  return "29 24 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n35 24 0:33 " + root + " " + point +
         " rw,relatime shared:7 master:1 - cgroup cgroup rw,memory\n";
}

std::optional<GroupHierarchy> groups_in(std::string const& cgroup, std::string const& mountinfo,
                                        std::string const& controller = "memory") {
  return cxxrun::find_groups(cgroup, mountinfo, controller);
}

}  // namespace

TEST_CASE("memory counters: the groups of version 1, from the process's own to the topmost", "[unit]") {
  CHECK(groups_in("5:cpu:/x\n4:memory:/slurm/job_3/step_0\n0::/y\n", first() + kSecond) ==
        GroupHierarchy{false, "/sys/fs/cgroup/memory", "", {"/slurm/job_3/step_0", "/slurm/job_3", "/slurm", ""}});
  CHECK(groups_in("4:cpu,memory:/\n", first()) == GroupHierarchy{false, "/sys/fs/cgroup/memory", "", {""}});
}

TEST_CASE("memory counters: of another controller its own groups", "[unit]") {
  CHECK(groups_in("5:cpu,cpuacct:/x\n4:memory:/y\n", first(), "cpu") ==
        GroupHierarchy{false, "/sys/fs/cgroup/cpu", "", {"/x", ""}});
  CHECK(groups_in("4:memory:/y\n0::/a\n", first() + kSecond, "pids") ==
        GroupHierarchy{true, "/sys/fs/cgroup", "", {"/a", ""}});
}

TEST_CASE("memory counters: version 2 where version 1 has no memory controller", "[unit]") {
  GroupHierarchy const second{true, "/sys/fs/cgroup", "", {"/a.slice/b", "/a.slice", ""}};
  CHECK(groups_in("0::/a.slice/b\n", kSecond) == second);
  CHECK(groups_in("5:cpu:/x\n0::/a.slice/b\n", "29 24 0:25 / /c rw - cgroup cgroup rw,cpu\n" + std::string(kSecond)) ==
        second);
  CHECK(groups_in("4:memory:/gone\n0::/a.slice/b\n", kSecond) == second);
}

TEST_CASE("memory counters: of a container that sees a part of the hierarchy, that part", "[unit]") {
  CHECK(groups_in("4:memory:/docker/0f/x\n", first("/docker/0f", "/m\\040n")) ==
        GroupHierarchy{false, "/m n", "/docker/0f", {"/x", ""}});
  CHECK(groups_in("4:memory:/docker/0f\n", first("/docker/0f")) ==
        GroupHierarchy{false, "/sys/fs/cgroup/memory", "/docker/0f", {""}});
}

TEST_CASE("memory counters: nothing where the group is not to be seen, or the texts are broken", "[unit]") {
  CHECK_FALSE(groups_in("", ""));
  CHECK_FALSE(groups_in("4:memory:/docker/0f\n", first("/docker/other")));
  CHECK_FALSE(groups_in("4:memory:/docker/0fa\n", first("/docker/0f")));
  CHECK_FALSE(groups_in("0::/../../x\n", kSecond));
  CHECK_FALSE(groups_in("4:memory\n4\n::\n", first()));
  CHECK_FALSE(groups_in("4:memory:relative\n", first()));
  CHECK_FALSE(groups_in("0::/x\n", "30 24 0:26 / /sys/fs/cgroup - cgroup2\n-\n - - - -\n"));
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
