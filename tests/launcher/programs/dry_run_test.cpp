#include "launcher/programs/dry_run.hpp"

#include "launcher/options/parse_options.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::testing::check_golden;
using cxxrun::testing::recorded_environment;

namespace {

std::string dry_run(std::vector<std::string> const& words, Environment const& environment, NodeFacts const& facts) {
  Options const options = std::get<Options>(parse_options(words, {}));
  return dry_run_text(options, make_topology(options, environment, "random").value(), facts, environment, "/bin/train");
}

}  // namespace

TEST_CASE("dry_run: one standalone worker, as recorded", "[unit]") {
  NodeFacts const facts{"here", 8, 1, "", "random"};

  check_golden("dry_run_standalone.txt",
               dry_run({"--dry-run", "--log-dir", "/dev/null", "train.py", "--name", "a b"}, {{"SECRET", "x"}}, facts));
}

TEST_CASE("dry_run: the second node of a Slurm step, as recorded", "[unit]") {
  NodeFacts const facts{"node2", 8, 2, "", "3.0"};

  check_golden("dry_run_slurm.txt",
               dry_run({"--dry-run", "-t", "1", "--monitor-interval", "1", "--log-dir", "/logs", "./train"},
                       recorded_environment("env-plain.txt", "task 1 on node2"), facts));
}

TEST_CASE("dry_run: one of several tasks on a node, as recorded", "[unit]") {
  auto const environment = recorded_environment("env-n5-uneven.txt", "task 2 on node1");
  NodeFacts facts{"node1", 8, 1, "", "10.0"};
  facts.task = make_topology(std::get<Options>(parse_options({"./train"}, {})), environment, "random").value().task;

  check_golden("dry_run_tasks.txt",
               dry_run({"--dry-run", "--log-dir", "/logs", "-r", "3", "./train"}, environment, facts));
}

TEST_CASE("dry_run: --slurm-env is told, and not the values of what is copied", "[unit]") {
  auto const environment = recorded_environment("env-plain.txt", "task 1 on node2");
  NodeFacts const facts{"node2", 8, 2, "", "3.0"};
  auto const text = [&](char const* mode) {
    return dry_run({"--dry-run", "--slurm-env", mode, "./train"}, environment, facts);
  };

  CHECK(text("per-worker").find("\n  SLURM_STEP_NODELIST=") == std::string::npos);  // the same as inherited
  CHECK(text("per-worker").find("\n  SLURM_PROCID=3\n") != std::string::npos);
  CHECK(text("all").find(
            "\nSLURM_*      each worker's own, as if srun had started it; the originals are CXXRUN_SLURM_*\n") !=
        std::string::npos);
  CHECK(text("all").find("\n  SLURM_NTASKS=4\n") != std::string::npos);
  CHECK(text("keep").find("\nSLURM_*      as srun set them for this task\n") != std::string::npos);
  CHECK(text("clear").find("\nSLURM_*      none for workers; the originals are CXXRUN_SLURM_*\n") != std::string::npos);
  CHECK(text("clear").find("CXXRUN_SLURM_JOB_USER") == std::string::npos);
}

TEST_CASE("dry_run: what --warm would do is told, or why it would do nothing", "[unit]") {
  NodeFacts const facts{"here", 8, 1, "", "random"};
  auto const text = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "--dry-run");
    return dry_run(words, {}, facts);
  };
  CHECK(text({"--warm=torch,numpy", "-m", "pkg.train"})
            .find("\nwarm         torch,numpy, imported once by python3 -u\n") != std::string::npos);
  CHECK(text({"--warm=auto", "t.py"})
            .find("\nwarm         what the first workers import, imported once by python3 -u\n") != std::string::npos);
  CHECK(text({"--warm", "numactl", "python3", "t.py"})
            .find("\nwarm         no, the workers' command begins with 'numactl' and not with Python\n") !=
        std::string::npos);
  CHECK(text({"t.py"}).find("\nwarm ") == std::string::npos);
}

TEST_CASE("dry_run: no value of an inherited variable is shown", "[unit]") {
  std::string const text = dry_run({"--nnodes", "2", "--rdzv-endpoint", "h", "p"},
                                   {{"TOKEN", "hunter2"}, {"OMP_NUM_THREADS", "9"}}, {"n", 1, 1, "", "none"});

  CHECK(text.find("hunter2") == std::string::npos);
  CHECK(text.find("OMP_NUM_THREADS") == std::string::npos);
  CHECK(text.find("hosted by    the node that has the address h\n") != std::string::npos);
}

TEST_CASE("dry_run: the CPUs of bound workers, the health check and the program are shown", "[unit]") {
  NodeFacts facts{"n", 4, 2, "", "none"};
  facts.cpu_sets = {{0, 1, 2}, {3}};
  std::string const text = dry_run({"--health-check", "nvidia-smi -L", "p"}, {}, facts);

  CHECK(text.find("\nexecutes     /bin/train\n") != std::string::npos);
  CHECK(text.find("health check nvidia-smi -L (60 s)\n") != std::string::npos);
  CHECK(text.find("  CPUs: 0-2\n") < text.find("  CPUs: 3\n"));
  CHECK(text.find("  CPUs: 3\n") != std::string::npos);
}
