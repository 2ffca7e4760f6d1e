#include "cxxrun/worker_env.hpp"

#include <map>

#include "tests/support/catch.hpp"

using cxxrun::StoreAddress;
using cxxrun::WorkerEnv;

namespace {

using Variables = std::map<std::string, std::string>;

cxxrun::Result<WorkerEnv> read(Variables const& variables) {
  return WorkerEnv::from([&](char const* name) -> char const* {
    auto const found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// The variables that cxxrun sets for the sixth of eight workers on two nodes.
Variables full() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"GROUP_RANK", "1"},
          {"GROUP_WORLD_SIZE", "2"},
          {"CXXRUN_GENERATION", "3"},
          {"TORCHELASTIC_RESTART_COUNT", "2"},
          {"TORCHELASTIC_RUN_ID", "job-7"},
          {"CXXRUN_STORE_ADDR", "fe80::1"},
          {"CXXRUN_STORE_PORT", "4000"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

Variables with(std::string const& name, std::string const& value) {
  Variables variables = full();
  variables[name] = value;
  return variables;
}

Variables without(std::string const& name) {
  Variables variables = full();
  variables.erase(name);
  return variables;
}

}  // namespace

TEST_CASE("worker_env: everything cxxrun sets is read", "[unit]") {
  WorkerEnv const expected{5, 8, 1, 4, 1, 2, 3, 2, "job-7", StoreAddress{"fe80::1", 4000}};

  CHECK(read(full()).value() == expected);
}

TEST_CASE("worker_env: nothing set is a world of one without a store", "[unit]") {
  CHECK(read({}).value() == WorkerEnv{});
  CHECK(read({{"MASTER_ADDR", "left-over"}}).value() == WorkerEnv{});
}

TEST_CASE("worker_env: torchrun's variables are enough", "[unit]") {
  Variables variables = full();
  for (char const* const own : {"CXXRUN_GENERATION", "CXXRUN_STORE_ADDR", "CXXRUN_STORE_PORT"}) {
    variables.erase(own);
  }

  WorkerEnv const env = read(variables).value();
  CHECK(env.generation == 0);
  CHECK(env.store == StoreAddress{"10.0.0.1", 29500});
}

TEST_CASE("worker_env: a store that no launcher serves is rank 0's to host", "[unit]") {
  Variables torch = without("CXXRUN_STORE_ADDR");
  torch.erase("CXXRUN_STORE_PORT");
  CHECK(read(torch).value().store_unserved);
  torch["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  CHECK(read(torch).value().store_unserved);
  torch["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK_FALSE(read(torch).value().store_unserved);

  CHECK_FALSE(read(with("TORCHELASTIC_USE_AGENT_STORE", "False")).value().store_unserved);
  CHECK_FALSE(read({}).value().store_unserved);
}

TEST_CASE("worker_env: each missing variable is named", "[unit]") {
  std::string const name = GENERATE("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  auto const env = read(without(name));

  REQUIRE_FALSE(env);
  CHECK(env.error().code == cxxrun::Errc::environment);
  CHECK(env.error().context.starts_with(name + " is not set"));
}

TEST_CASE("worker_env: of the four numbers any part is an error that names what is missing", "[unit]") {
  char const* const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
  for (unsigned subset = 1; subset < 15; ++subset) {
    Variables variables = full();
    std::string missing;
    for (unsigned i = 0; i < 4; ++i) {
      if ((subset >> i & 1U) == 0) {
        variables.erase(names[i]);
        missing += names[i];
      }
    }
    CAPTURE(missing);
    auto const env = read(variables);

    REQUIRE_FALSE(env);
    std::string const named = env.error().context.substr(0, env.error().context.find(' '));
    CHECK(missing.find(named) != std::string::npos);
    CHECK(env.error().context.starts_with(named + " is not set, but "));
    CHECK(env.error().context.find('\n') == std::string::npos);
  }
}

TEST_CASE("worker_env: by hand under srun or mpirun their numbers stand for LOCAL_RANK and LOCAL_WORLD_SIZE",
          "[unit]") {
  Variables const by_hand{{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "1"}};
  Variables const slurm{{"SLURM_PROCID", "5"},
                        {"SLURM_STEP_NUM_TASKS", "8"},
                        {"SLURM_LOCALID", "1"},
                        {"SLURM_NODEID", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3,1"}};
  Variables const open_mpi{{"OMPI_COMM_WORLD_RANK", "5"},
                           {"OMPI_COMM_WORLD_SIZE", "8"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}};
  Variables const mpich{{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "3"}};
  for (auto const& launcher : {slurm, open_mpi, mpich}) {
    Variables both = by_hand;
    both.insert(launcher.begin(), launcher.end());

    auto const env = read(both);
    REQUIRE(env);
    CHECK(env->local_rank == 1);
    CHECK(env->local_world_size == 3);

    both["LOCAL_RANK"] = "0";
    CHECK(read(both).value().local_rank == 0);
    both.erase("LOCAL_RANK");
    both["RANK"] = "4";  // not the launcher's number, so the launcher does not know the place of this rank
    CHECK(read(both).error().context.starts_with("LOCAL_RANK is not set, but RANK is; set it to $SLURM_LOCALID"));
  }
  Variables damaged = by_hand;
  damaged.insert(slurm.begin(), slurm.end());
  for (char const* const list : {"", "2(x2", "2(x0),3", "2,x", "2(x2)", "a"}) {
    damaged["SLURM_STEP_TASKS_PER_NODE"] = list;
    CHECK(read(damaged).error().context.starts_with("LOCAL_WORLD_SIZE is not set"));
  }
}

TEST_CASE("worker_env: Slurm's numbers of a batch script are not those of the processes it starts", "[unit]") {
  Variables variables{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "1"}};
  variables.insert({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_NTASKS", "2"}});

  CHECK(read(variables).error().context.starts_with("LOCAL_RANK is not set"));
}

TEST_CASE("worker_env: RANK and WORLD_SIZE of one need no place", "[unit]") {
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).value() == WorkerEnv{});
}

TEST_CASE("worker_env: an empty variable is a missing one", "[unit]") {
  CHECK(read(with("RANK", "")).error().context.starts_with("RANK is not set"));
}

TEST_CASE("worker_env: malformed and contradicting numbers are named with their value", "[unit]") {
  CHECK(read(with("RANK", "8")).error().context == "RANK is \"8\", not a number from 0 to 7");
  CHECK(read(with("RANK", "5x")).error().context == "RANK is \"5x\", not a number from 0 to 7");
  CHECK(read(with("WORLD_SIZE", "0")).error().context == "WORLD_SIZE is \"0\", not a number from 1 up");
  CHECK(read(with("LOCAL_WORLD_SIZE", "9")).error().context == "LOCAL_WORLD_SIZE is \"9\", not a number from 1 to 8");
  CHECK(read(with("CXXRUN_STORE_PORT", "65536")).error().context ==
        "CXXRUN_STORE_PORT is \"65536\", not a number from 1 to 65535");
}

TEST_CASE("worker_env: half an address of the store is an error", "[unit]") {
  CHECK(read(without("CXXRUN_STORE_PORT")).error().context ==
        "CXXRUN_STORE_PORT is not set, but CXXRUN_STORE_ADDR is; the store needs both");
}

TEST_CASE("worker_env: several workers without any store is an error, one alone is not", "[unit]") {
  Variables const alone{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  Variables const two{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}};

  CHECK(read(alone).value() == WorkerEnv{});
  CHECK(read(two).error().context.starts_with("MASTER_ADDR is not set"));
}
