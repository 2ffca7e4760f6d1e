#include "launcher/report/death.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;

MemoryLimit const kStep{"/slurm/uid_0/job_3/step_0", 100 * kMiB, 12 * kMiB, 7};

MemoryFacts kills(std::uint64_t count, std::optional<MemoryLimit> reached = kStep) {
  return {count, count, std::move(reached)};
}

DeathFacts signalled(int signal, MemoryFacts memory = kills(0, std::nullopt)) {
  DeathFacts facts;
  facts.status = ExitStatus::signalled(signal);
  facts.pid = 77;
  facts.peak = 98 * kMiB;
  facts.memory = std::move(memory);
  return facts;
}

DeathFacts exited(std::string said, MemoryFacts memory = kills(0, std::nullopt)) {
  DeathFacts facts;
  facts.status = ExitStatus::exited(1);
  facts.killed = 0;
  facts.said = std::move(said);
  facts.memory = std::move(memory);
  return facts;
}

DeathFacts limited(std::string said) {
  auto facts = exited(std::move(said));
  Limits limits;
  limits.files = {1024, 4096};
  limits.tasks = {4096, 4096};
  limits.address_space = {4096 * kMiB, 4096 * kMiB};
  limits.locked = {kMiB / 16, kMiB / 16};
  facts.limit = explain_limits(facts.said, limits);
  return facts;
}

template <class Change>
DeathFacts with(DeathFacts facts, Change change) {
  change(facts);
  return facts;
}

struct Row {
  char const* what;
  DeathFacts facts;
  char const* sure;
};

/// The rows of the table in docs/use/failures.md, in that order.
std::vector<Row> rows() {
  return {
      {"out of memory, the limit of the step or the job", signalled(SIGKILL, kills(1)), "yes"},
      {"the same outside Slurm", signalled(SIGKILL, kills(1, MemoryLimit{"/a/b", 3 * 512 * kMiB, kMiB, 1})), "yes"},
      {"the kernel killed fewer than were killed, and this one was the largest",
       with(signalled(SIGKILL, kills(1)), [](auto& facts) { facts.killed = 2; }), "probable"},
      {"out of memory, the whole host", signalled(SIGKILL, kills(1, std::nullopt)), "probable"},
      {"a DataLoader worker out of memory",
       exited("RuntimeError: DataLoader worker (pid 812) is killed by signal: Killed. \n", kills(1)), "yes"},
      {"some other process that the workers have started, out of memory", exited("", kills(1)), "probable"},
      {"somebody's `kill -9`", signalled(SIGKILL), "yes; who, nobody can know"},
      {"SIGKILL, and the kernel kills for memory elsewhere on the host",
       with(signalled(SIGKILL), [](auto& facts) { facts.memory.machine = 1; }), "open"},
      {"SIGKILL, and there are no counters", signalled(SIGKILL, MemoryFacts{}), "open"},
      {"the lease of the node ran out", with(signalled(SIGKILL), [](auto& facts) { facts.lease_over = true; }), "yes"},
      {"a DataLoader worker killed by somebody",
       exited("RuntimeError: DataLoader worker (pid 812) is killed by signal: Killed. \n"), "yes"},
      {"shared memory of a DataLoader worker",
       exited("RuntimeError: DataLoader worker (pid 812) is killed by signal: Bus error. It is possible that\n"),
       "probable"},
      {"disk full, and its line names the file, as of Python, C++ and `dd`",
       exited("OSError: [Errno 28] No space left on device: '/data/step-900.pt'\n"), "yes"},
      {"quota used up, and its line names the file",
       exited("OSError: [Errno 122] Disk quota exceeded: '/home/me/step-900.pt'\n"), "yes"},
      {"disk full, a program that does not say where",
       with(exited("write: No space left on device\n"),
            [](auto& facts) {
              facts.paths = {{".", true, 0, false}, {"/tmp", true, 0, true}};
            }),
       "probable"},
      {"SIGBUS, and a path that the worker needs does not answer",
       with(signalled(SIGBUS), [](auto& facts) { facts.paths = {{"/data/train.py"}}; }), "yes"},
      {"SIGBUS, and /dev/shm is full",
       with(signalled(SIGBUS),
            [](auto& facts) {
              facts.paths = {{"/dev/shm", true, 0, true}};
            }),
       "probable"},
      {"SIGBUS, and all paths answer", signalled(SIGBUS), "open"},
      {"a read or write that failed, and its server is gone",
       with(exited("OSError: [Errno 116] Stale file handle: '/data/x'\n"),
            [](auto& facts) {
              facts.paths = {{"/data/train.py", true, 116, false}};
            }),
       "yes"},
      {"a GPU failed (the kernel's log can be read)",
       with(exited(""), [](auto& facts) { facts.gpu = explain_xids("NVRM: Xid (PCI:0000:3b:00): 79, pid=1"); }), "yes"},
      {"a program did something to its GPU that it may not (the same)",
       with(exited(""), [](auto& facts) { facts.gpu = explain_xids("NVRM: Xid (PCI:0000:3b:00): 31, pid=1"); }), "yes"},
      {"`ulimit -n`", limited("OSError: [Errno 24] Too many open files\n"), "probable"},
      {"`ulimit -u`", limited("RuntimeError: can't start new thread\n"), "probable"},
      {"`ulimit -v`", limited("std::bad_alloc\n"), "probable"},
      {"`ulimit -l`", limited("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"), "yes"},
      {"no memory for a fork", limited("bash: fork: Cannot allocate memory\n"), "yes"},
      {"/dev/shm is full, PyTorch or NCCL",
       limited("RuntimeError: unable to write to file </torch_12_34>: No space left on device (28)\n"), "yes"},
      {"`ulimit -t`", signalled(SIGXCPU), "yes"},
      {"`ulimit -f`", signalled(SIGXFSZ), "yes"},
      {"a Python module is missing", exited("Traceback\n\nModuleNotFoundError: No module named 'torch'"), "yes"},
      {"`input()` or `breakpoint()` without a standard input", exited("Traceback\n\nbdb.BdbQuit\n\nbdb.BdbQuit"),
       "yes"},
      {"a crash whose core systemd has taken",
       with(signalled(SIGSEGV),
            [](auto& facts) {
              facts.status.core_dumped = true;
              facts.core_pattern = "|/usr/lib/systemd/systemd-coredump %P %u %g\n";
            }),
       "yes"},
      {"a crash whose core all ranks write to one file",
       with(signalled(SIGSEGV),
            [](auto& facts) {
              facts.status.core_dumped = true;
              facts.core_pattern = "core\n";
            }),
       "yes"},
  };
}

}  // namespace

// CXXRUN_REWRITE=1 writes the table instead, for review by diff.
TEST_CASE("death: the page has the line and the advice of each cause, and no others", "[unit]") {
  std::string const path = CXXRUN_SOURCE_DIR "/docs/use/failures.md";
  std::string page = testing::read_file(path);
  std::string const head = "| what happened | line | advice | sure |\n|---|---|---|---|\n";
  auto const begin = page.find(head);
  auto const end = page.find("\n\n", begin);
  REQUIRE(end != std::string::npos);
  std::string table = head;
  for (auto const& row : rows()) {
    auto const found = explain(row.facts);
    table += "| " + std::string(row.what) + " | " + (found.cause.empty() ? "–" : found.cause) + " | " +
             (found.advice.empty() ? "–" : found.advice) + " | " + row.sure + " |\n";
  }
  if (std::getenv("CXXRUN_REWRITE") != nullptr) {
    std::ofstream(path) << page.replace(begin, end + 1 - begin, table);
  }
  CHECK(page.substr(begin, table.size() + 1) == table + "\n");
}

TEST_CASE("death: a module that was missed before the last words is not what it died of", "[unit]") {
  CHECK(explain(exited("ModuleNotFoundError: No module named 'apex'\nValueError: x")).advice.empty());
}

TEST_CASE("death: who has the standard input, or has met another end of a file, is not told to have it given",
          "[unit]") {
  auto facts = exited("EOFError: EOF when reading a line");
  CHECK_FALSE(explain(facts).advice.empty());
  facts.has_stdin = true;
  CHECK(explain(facts).advice.empty());
  CHECK(explain(exited("EOFError: Ran out of input")).advice.empty());
}

TEST_CASE("death: a limit of the job's is its own doing, and what the host or somebody else does is not", "[unit]") {
  std::set<std::string> const own{
      "out of memory, the limit of the step or the job",
      "the same outside Slurm",
      "the kernel killed fewer than were killed, and this one was the largest",
      "a DataLoader worker out of memory",
      "some other process that the workers have started, out of memory",
      "a program did something to its GPU that it may not (the same)",
      "`ulimit -n`",
      "`ulimit -u`",
      "`ulimit -v`",
      "`ulimit -l`",
      "`ulimit -t`",
      "`ulimit -f`",
  };
  for (auto const& row : rows()) {
    INFO(row.what);
    CHECK(explain(row.facts).of_job == own.contains(row.what));
  }
}

TEST_CASE("death: as many kernel kills as deaths are certain, fewer go to the largest", "[unit]") {
  auto facts = signalled(SIGKILL, kills(2));
  facts.killed = 3;
  facts.larger = 1;
  CHECK(explain(facts).cause.starts_with("probably killed by the kernel: "));
  facts.larger = 2;
  CHECK(explain(facts).cause.starts_with("from outside"));
  facts.killed = 2;
  CHECK(explain(facts).cause.starts_with("killed by the kernel: memory limit 100 MiB of step 3.0"));
}

TEST_CASE("death: where this group counts no kills those of the machine are only probable", "[unit]") {
  auto facts = signalled(SIGKILL, {std::nullopt, 1, std::nullopt});
  CHECK(explain(facts).cause ==
        "probably killed by the kernel: this host ran out of memory, no limit of yours was "
        "reached (worker peak 98 MiB)");
  facts.memory.machine = 0;
  CHECK(explain(facts).cause == "from outside (not cxxrun, not the out-of-memory killer)");
}

TEST_CASE("death: a killed worker does not die of what it said before", "[unit]") {
  auto facts = signalled(SIGKILL);
  facts.said = "warning: No space left on device\n";
  CHECK(explain(facts).cause.starts_with("from outside"));
}

TEST_CASE("death: nothing is said of an ordinary end", "[unit]") {
  CHECK(explain(exited("ValueError: loss is nan\n")) == Explanation{});
  CHECK(explain(signalled(SIGSEGV)) == Explanation{});
  DeathFacts facts;
  CHECK(explain(facts) == Explanation{});
  facts.status = ExitStatus::not_started(2);
  CHECK(explain(facts) == Explanation{});
}

TEST_CASE("death: a file that is gone is no file server that is gone", "[unit]") {
  auto facts = signalled(SIGBUS);
  facts.paths = {{".", true, 0, false}, {"/data/train.py", true, ENOENT, false}};
  CHECK(explain(facts).cause.starts_with("a mapped file was truncated"));
  facts.paths.back().error = EIO;
  CHECK(explain(facts).cause == "file server gone: /data/train.py: Input/output error");
}

TEST_CASE("death: at the hard limit on CPU time the kernel sends SIGKILL", "[unit]") {
  auto facts = signalled(SIGKILL);
  facts.time_used_up = true;
  CHECK(explain(facts) == explain(signalled(SIGXCPU)));
  facts.memory = kills(1);
  CHECK(explain(facts).cause.starts_with("killed by the kernel: memory limit"));
}

TEST_CASE("death: a core with a pid in its name is one rank's own", "[unit]") {
  auto facts = signalled(SIGABRT);
  facts.status.core_dumped = true;
  facts.core_pattern = "/var/core/%e.%p\n";
  CHECK(explain(facts).advice == "core file: /var/core/%e.%p");
  facts.core_uses_pid = true;  // the kernel appends the pid only where the pattern has none
  CHECK(explain(facts).advice == "core file: /var/core/%e.%p");
  facts.core_pattern = "core\n";
  facts.pid = 77;
  CHECK(explain(facts).advice == "core file: core.77");
  facts.core_pattern = "|/opt/collect %p";
  CHECK(explain(facts).advice == "core piped to /opt/collect");
}

TEST_CASE("death: the file systems are looked at where that can tell more", "[unit]") {
  CHECK(needs_probe(ExitStatus::signalled(SIGBUS), ""));
  CHECK(needs_probe(ExitStatus::exited(128 + SIGBUS), ""));
  CHECK(needs_probe(ExitStatus::exited(1), "x: Stale file handle"));
  CHECK(needs_probe(ExitStatus::exited(1), "x: No space left on device"));
  CHECK_FALSE(needs_probe(ExitStatus::exited(1), "x: Disk quota exceeded"));  // it shows in no file system's size
  CHECK_FALSE(needs_probe(ExitStatus::exited(1), "No space left on device: '/data/x'"));
  CHECK_FALSE(needs_probe(ExitStatus::exited(0), "x: Stale file handle"));
  CHECK_FALSE(needs_probe(ExitStatus::signalled(SIGSEGV), ""));
}

TEST_CASE("death: the limit that was hit meanwhile is named, the smallest of several", "[unit]") {
  MemoryCounters before{5, 9, {{"/a/b", 50, 1, 3}, {"/a", 100, 1, 4}}};
  auto now = before;
  CHECK(since(before, now) == MemoryFacts{0, 0, std::nullopt});
  now.kills = 6;
  now.limits[1].hits = 5;
  CHECK(since(before, now) == MemoryFacts{1, 0, now.limits[1]});
  now.limits[0].hits = 4;
  CHECK(since(before, now).reached->group == "/a/b");
  now.kills.reset();
  CHECK(since(before, now).kills == std::nullopt);
  CHECK(since({7, 7, {}}, {6, 6, {}}).kills == 0);  // it does not count backwards
}

TEST_CASE("death: groups and sizes in words", "[unit]") {
  CHECK(group_name("/slurm/uid_0/job_3/step_0/task_1") == "step 3.0");
  CHECK(group_name("/system.slice/slurmstepd.scope/job_3") == "job 3");
  CHECK(group_name("/system.slice/slurmstepd.scope/job_3/step_batch/user") == "step 3.batch");
  CHECK(group_name("/system.slice/node1_slurmstepd.scope/s3S9M8EHM65Z00/step_0/user/task_0") ==
        "step 0 of this Slurm job");
  CHECK(group_name("/system.slice/slurmstepd.scope/s3S9M8EHM65Z00") == "this Slurm job");
  CHECK(is_of_slurm("/system.slice/slurmstepd.scope/s3S9M8EHM65Z00/step_batch/user"));
  CHECK_FALSE(is_of_slurm("/system.slice/slurmstepd.scope"));
  CHECK_FALSE(is_of_slurm("/user.slice/step_0"));
  CHECK(group_name("/docker/0f") == "control group /docker/0f");
  CHECK(group_name("") == "control group /");
  CHECK(bytes_text(512 * 1024) == "512 KiB");
  CHECK(bytes_text(100 * kMiB) == "100 MiB");
  CHECK(bytes_text(8 * 1024 * kMiB) == "8 GiB");
  CHECK(bytes_text(7680 * kMiB) == "7.5 GiB");
}
