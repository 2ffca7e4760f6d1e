#include "src/base/core/limits.hpp"

#include <cerrno>

#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

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
