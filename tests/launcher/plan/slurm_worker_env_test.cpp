#include <array>

#include "launcher/plan/worker_plan.hpp"
#include "src/base/core/hostlist.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::rendezvous::Generation;
using cxxrun::testing::recorded_environment;

namespace {

/// Node 1 of three nodes with 4, 4 and 2 workers.
Generation uneven() {
  Generation generation;
  generation.group_rank = 1;
  generation.group_size = 3;
  generation.rank_base = 4;
  generation.local_size = 4;
  generation.world_size = 10;
  generation.hosts = "node[4,2,3]";
  generation.local_sizes = "4(x2),2";
  return generation;
}

/// The environment that a worker gets.
Environment seen(Generation const& generation, std::uint32_t index, Environment const& inherited,
                 SlurmEnv mode = SlurmEnv::per_worker, bool one_per_task = false) {
  Environment environment = inherited;
  for (auto const& [name, value] : slurm_changes(mode, generation, index, one_per_task, inherited)) {
    if (value) {
      environment[name] = *value;
    } else {
      environment.erase(name);
    }
  }
  return environment;
}

Environment task() {
  return recorded_environment("env-plain.txt", "task 1 on node2");
}

}  // namespace

TEST_CASE("slurm_worker_env: a worker finds what srun would have told it as a task", "[unit]") {
  auto const worker = seen(uneven(), 2, task());

  CHECK(worker.at("SLURM_PROCID") == "6");
  CHECK(worker.at("SLURM_LOCALID") == "2");
  CHECK(worker.at("SLURM_NODEID") == "1");
  CHECK(worker.at("SLURM_GTIDS") == "4,5,6,7");
  CHECK(worker.at("SLURM_STEP_NUM_TASKS") == "10");
  CHECK(worker.at("SLURM_STEP_NUM_NODES") == "3");
  CHECK(worker.at("SLURM_STEP_TASKS_PER_NODE") == "4(x2),2");
  CHECK(worker.at("SLURM_STEP_NODELIST") == "node[4,2,3]");
}

TEST_CASE("slurm_worker_env: what srun, sbatch and mpirun take for options is the task's in every worker", "[unit]") {
  // Of srun(1), sbatch(1) and salloc(1) of Slurm 26.05, those that a step sets; SLURM_NNODES and SLURM_TASKS_PER_NODE
  // are what mpirun reads beside SLURM_NODELIST.
  constexpr std::array kAsked = {"SLURM_NTASKS",
                                 "SLURM_NPROCS",
                                 "SLURM_NTASKS_PER_NODE",
                                 "SLURM_NTASKS_PER_CORE",
                                 "SLURM_NNODES",
                                 "SLURM_JOB_NUM_NODES",
                                 "SLURM_NTASKS_PER_GPU",
                                 "SLURM_NTASKS_PER_SOCKET",
                                 "SLURM_CPUS_PER_TASK",
                                 "SLURM_TRES_PER_TASK",
                                 "SLURM_NTASKS_PER_TRES",
                                 "SLURM_TASKS_PER_NODE",
                                 "SLURM_CPUS_PER_GPU",
                                 "SLURM_DISTRIBUTION",
                                 "SLURM_MEM_PER_CPU",
                                 "SLURM_MEM_PER_NODE",
                                 "SLURM_MEM_PER_GPU",
                                 "SLURM_GPUS",
                                 "SLURM_GPUS_PER_NODE",
                                 "SLURM_GPUS_PER_TASK",
                                 "SLURM_CPU_BIND",
                                 "SLURM_GPU_BIND",
                                 "SLURM_TRES_BIND",
                                 "SLURM_STEP_GRES",
                                 "SLURM_JOB_ID",
                                 "SLURM_JOB_NODELIST",
                                 "SLURM_HINT",
                                 "SLURM_THREADS_PER_CORE",
                                 "SLURM_OVERCOMMIT",
                                 "SLURM_EXACT",
                                 "SRUN_CPUS_PER_TASK",
                                 "SLURM_RESV_PORTS"};
  Environment bare = task();
  Environment full = bare;
  for (char const* const name : kAsked) {
    bare.erase(name);
    full[name] = "17";
  }
  auto const with = seen(uneven(), 2, full);
  auto const without = seen(uneven(), 2, bare);

  for (char const* const name : kAsked) {
    CAPTURE(name);
    CHECK(with.at(name) == "17");
    CHECK_FALSE(with.contains("CXXRUN_" + std::string(name)));
    CHECK_FALSE(without.contains(name));
  }
}

TEST_CASE("slurm_worker_env: with all a worker is a task in every variable", "[unit]") {
  auto const worker = seen(uneven(), 2, task(), SlurmEnv::all);

  for (char const* const name : {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"}) {
    CHECK(worker.at(name) == "10");
  }
  CHECK(worker.at("SLURM_PROCID") == "6");
  CHECK(worker.at("SLURM_NNODES") == "3");
  CHECK(worker.at("SLURM_TASKS_PER_NODE") == "4(x2),2");
  CHECK_FALSE(worker.contains("SLURM_NTASKS_PER_NODE"));
}

TEST_CASE("slurm_worker_env: what belongs to the job stays, as in a step on some of its nodes", "[unit]") {
  auto const inherited = task();
  auto const worker = seen(uneven(), 2, inherited);

  for (auto const& [name, value] : inherited) {
    if (name.starts_with("SLURM_JOB") || name == "SLURM_NODELIST" || name == "SLURMD_NODENAME") {
      CAPTURE(name);
      CHECK(worker.at(name) == value);
      CHECK_FALSE(worker.contains("CXXRUN_" + name));
    }
  }
}

TEST_CASE("slurm_worker_env: every original stays readable, also where it happens to be the same", "[unit]") {
  Environment inherited = task();
  inherited["SLURM_NTASKS_PER_NODE"] = "1";
  auto const worker = seen(uneven(), 2, inherited, SlurmEnv::all);

  for (auto const& [name, value] : slurm_changes(SlurmEnv::all, uneven(), 2, false, inherited)) {
    if (!name.starts_with("CXXRUN_") && inherited.contains(name)) {
      CAPTURE(name);
      CHECK(worker.at("CXXRUN_" + name) == inherited.at(name));
    }
  }
  CHECK(worker.at("CXXRUN_SLURM_NODEID") == "1");
  CHECK(worker.at("CXXRUN_SLURM_NTASKS_PER_NODE") == "1");
}

TEST_CASE("slurm_worker_env: agrees with the tasks that srun really started", "[unit]") {
  Generation generation;
  generation.group_rank = 1;
  generation.group_size = 2;
  generation.rank_base = 4;
  generation.local_size = 4;
  generation.world_size = 8;
  generation.hosts = cxxrun::compress_hostlist({"node1", "node2"});
  generation.local_sizes = cxxrun::compress_counts({4, 4});
  auto const real = recorded_environment("env-gpus-per-task-4tasks.txt", "task 6 on node2");
  auto const worker = seen(generation, 2, task(), SlurmEnv::all);
  for (auto const& [name, value] : slurm_changes(SlurmEnv::all, generation, 2, false, task())) {
    if (!name.starts_with("CXXRUN_")) {
      CAPTURE(name);
      CHECK(worker.at(name) == real.at(name));
    }
  }
}

TEST_CASE("slurm_worker_env: lists too long to be told are removed, not left wrong", "[unit]") {
  Generation generation = uneven();
  generation.hosts.clear();
  generation.local_sizes.clear();
  auto const worker = seen(generation, 0, task(), SlurmEnv::all);

  for (char const* const name :
       {"SLURM_STEP_NODELIST", "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"}) {
    CHECK_FALSE(worker.contains(name));
  }
  CHECK(worker.at("CXXRUN_SLURM_STEP_NODELIST") == "node[1-2]");
}

TEST_CASE("slurm_worker_env: with all the CPUs of a task are shared out, at least one each", "[unit]") {
  Environment inherited = task();
  inherited["SLURM_CPUS_PER_TASK"] = "10";
  inherited["SLURM_TRES_PER_TASK"] = "cpu=10";

  auto const first = [&](Generation const& generation) { return seen(generation, 0, inherited, SlurmEnv::all); };
  CHECK(first(uneven()).at("SLURM_CPUS_PER_TASK") == "2");
  CHECK_FALSE(first(uneven()).contains("SLURM_TRES_PER_TASK"));
  inherited["SLURM_CPUS_PER_TASK"] = "1";
  CHECK(first(uneven()).at("SLURM_CPUS_PER_TASK") == "1");
  inherited["SLURM_CPUS_PER_TASK"] = "many";
  CHECK(first(uneven()).at("SLURM_CPUS_PER_TASK") == "many");
  Generation lone = uneven();
  lone.local_size = 1;
  inherited["SLURM_CPUS_PER_TASK"] = "10";
  CHECK(first(lone).at("SLURM_TRES_PER_TASK") == "cpu=10");
}

TEST_CASE("slurm_worker_env: in a batch script no step is invented", "[unit]") {
  auto const worker = seen(uneven(), 3, recorded_environment("sbatch-gres.txt", "batch 0 on node1"), SlurmEnv::all);

  CHECK(worker.at("SLURM_PROCID") == "7");
  CHECK(worker.at("SLURM_NTASKS") == "10");
  for (auto const& [name, value] : worker) {
    CHECK_FALSE(name.starts_with("SLURM_STEP_N"));
  }
}

TEST_CASE("slurm_worker_env: nothing changes outside Slurm, with keep, and for a task of the worker's own", "[unit]") {
  CHECK(slurm_changes(SlurmEnv::per_worker, uneven(), 2, false, {{"PATH", "/bin"}}).empty());
  CHECK(slurm_changes(SlurmEnv::keep, uneven(), 2, false, task()).empty());
  CHECK(slurm_changes(SlurmEnv::per_worker, uneven(), 2, true, task()).empty());
  CHECK(slurm_changes(SlurmEnv::all, uneven(), 2, true, task()).empty());
}

TEST_CASE("slurm_worker_env: clear leaves nothing of Slurm's but the copies", "[unit]") {
  auto const inherited = task();
  auto const worker = seen(uneven(), 2, inherited, SlurmEnv::clear, true);

  for (auto const& [name, value] : worker) {
    CHECK_FALSE(name.starts_with("SLURM"));
  }
  CHECK(worker.at("CXXRUN_SLURM_PROCID") == "1");
  CHECK(worker.at("CXXRUN_SLURMD_NODENAME") == "node2");
  CHECK(worker.size() == inherited.size());
}
