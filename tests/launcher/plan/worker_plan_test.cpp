#include "launcher/plan/worker_plan.hpp"

#include <algorithm>

#include "launcher/options/parse_options.hpp"
#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::rendezvous::Generation;
using Words = std::vector<std::string>;

namespace {

Generation third_generation() {
  Generation generation;
  generation.number = 3;
  generation.restarts = 1;
  generation.max_restarts = 5;
  generation.group_rank = 1;
  generation.group_size = 2;
  generation.rank_base = 4;
  generation.local_size = 2;
  generation.world_size = 6;
  generation.role_base = 1;
  generation.role_size = 3;
  generation.master_addr = "10.0.0.1";
  generation.master_port = 40001;
  generation.store_port = 40002;
  return generation;
}

NodeFacts const node_facts{"node2", 9, 2, "/logs/42.0_node2", "42.0"};

Options options_for(Words words) {
  words.emplace_back("./train");
  return std::get<Options>(parse_options(words, {}));
}

std::vector<WorkerSpec> planned(Words const& words, Environment const& inherited = {},
                                NodeFacts const& facts = node_facts) {
  return plan_workers(third_generation(), options_for(words), facts, inherited);
}

std::string variable(WorkerSpec const& worker, std::string const& name) {
  for (auto const& word : worker.environment) {
    if (word.starts_with(name + "=")) {
      return word.substr(name.size() + 1);
    }
  }
  return "(unset)";
}

Words command_of(Words const& words, Environment const& inherited = {}) {
  Options const options = std::get<Options>(parse_options(words, {}));
  return plan_workers(third_generation(), options, node_facts, inherited).at(1).argv;
}

}  // namespace

TEST_CASE("worker_plan: each worker and each agent that is coordinated costs descriptors", "[unit]") {
  auto const alone = cxxrun::launcher::descriptors_needed(1, 1);
  CHECK(alone < 64);  // below the limit of every system
  CHECK(cxxrun::launcher::descriptors_needed(9, 1) == alone + 8 * 8);
  CHECK(cxxrun::launcher::descriptors_needed(1, 101) == alone + 100 * 2);
}

TEST_CASE("worker_plan: the whole plan of a node, as recorded", "[unit]") {
  std::string text;
  for (auto const& worker :
       planned({"--tee", "0:1,1:2", "-r", "0:2", "--role", "trainer"}, {{"PATH", "/bin"}, {"RANK", "77"}})) {
    text += "rank " + std::to_string(worker.rank) + " local " + std::to_string(worker.local_rank) + "\n";
    text += "argv " + cxxrun::join(worker.argv, " ") + "\n";
    text += "prefix '" + worker.prefix + "'\n";
    text += "out '" + worker.out.file + "' " + (worker.out.console ? "console" : "-") + "\n";
    text += "err '" + worker.err.file + "' " + (worker.err.console ? "console" : "-") + "\n";
    text += cxxrun::join(worker.environment, "\n") + "\n\n";
  }
  cxxrun::testing::check_golden("worker_plan.txt", text);
}

TEST_CASE("worker_plan: a .py program runs unbuffered with $PYTHON_EXEC or python3, all else directly", "[unit]") {
  CHECK(command_of({"train.py", "x"}) == Words{"python3", "-u", "train.py", "x"});
  CHECK(command_of({"train.py"}, {{"PYTHON_EXEC", "/opt/py"}}) == Words{"/opt/py", "-u", "train.py"});
  CHECK(command_of({"--no-python", "train.py"}) == Words{"train.py"});
  CHECK(command_of({"-m", "pkg.train", "x"}) == Words{"python3", "-u", "-m", "pkg.train", "x"});
  CHECK(command_of({"./train.pyc"}) == Words{"./train.pyc"});
}

TEST_CASE("worker_plan: --run-path makes a Python script of any name, whatever else is said", "[unit]") {
  CHECK(command_of({"--run-path", "./train", "x"}) == Words{"python3", "-u", "./train", "x"});
  CHECK(command_of({"--run-path", "-m", "--no-python", "train.py"}) == Words{"python3", "-u", "train.py"});
  CHECK(planned({"--run-path", "-m"})[0].script == "./train");
  CHECK(planned({"-m"})[0].script.empty());
}

TEST_CASE("worker_plan: ${local_rank} in arguments is the worker's, anything else stays", "[unit]") {
  CHECK(command_of({"./train", "a${local_rank}b${local_rank}", "$local_rank", "$$", "${rank}"}) ==
        Words{"./train", "a1b1", "$local_rank", "$$", "${rank}"});
}

TEST_CASE("worker_plan: the user's own settings are kept, torchrun's are overwritten", "[unit]") {
  auto const worker = planned({}, {{"OMP_NUM_THREADS", "7"},
                                   {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
                                   {"PYTHONFAULTHANDLER", ""},
                                   {"RANK", "9"}})[0];

  CHECK(variable(worker, "OMP_NUM_THREADS") == "7");
  CHECK(variable(worker, "TORCH_NCCL_ASYNC_ERROR_HANDLING") == "0");
  CHECK(variable(worker, "PYTHONFAULTHANDLER").empty());
  CHECK(variable(planned({})[0], "PYTHONFAULTHANDLER") == "1");
  CHECK(variable(worker, "RANK") == "4");
}

TEST_CASE("worker_plan: NCCL's RAS service has an address of this node, unless the user has decided about it",
          "[unit]") {
  NodeFacts facts = node_facts;
  CHECK(variable(planned({})[0], "NCCL_RAS_ADDR") == "(unset)");
  facts.ras = "127.0.0.1:40123";
  for (auto const& worker : planned({}, {}, facts)) {
    CHECK(variable(worker, "NCCL_RAS_ADDR") == "127.0.0.1:40123");
  }
  CHECK(ras_address(facts, {}) == "127.0.0.1:40123");

  Environment const own{{"NCCL_RAS_ADDR", "localhost:7"}};
  CHECK(variable(planned({}, own, facts)[0], "NCCL_RAS_ADDR") == "localhost:7");
  CHECK(ras_address(node_facts, own) == "localhost:7");

  Environment const off{{"NCCL_RAS_ENABLE", "0"}};
  CHECK(variable(planned({}, off, facts)[0], "NCCL_RAS_ADDR") == "(unset)");
  CHECK(ras_address(facts, off).empty());
}

TEST_CASE("worker_plan: a worker knows in which job and step its launcher is, whatever it sees of Slurm", "[unit]") {
  Environment const step{{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}, {"SLURM_PROCID", "0"}};
  for (char const* const mode : {"per-worker", "keep", "clear"}) {
    CHECK(variable(planned({"--slurm-env", mode}, step)[1], "CXXRUN_JOB_STEP") == "7.1");
  }
  CHECK(variable(planned({}, {{"CXXRUN_JOB_STEP", "7.1"}})[0], "CXXRUN_JOB_STEP") == "(unset)");
}

TEST_CASE("worker_plan: the log of a worker is named only where its stderr is in a file that stays", "[unit]") {
  NodeFacts facts = node_facts;
  CHECK(planned({"--tee", "2"}, {}, facts)[0].log.empty());
  facts.keeps_logs = true;
  CHECK(planned({"--tee", "2"}, {}, facts)[1].log == "/logs/42.0_node2/attempt_3/1/stderr.log");
  CHECK(planned({"--tee", "1"}, {}, facts)[1].log.empty());
}

TEST_CASE("worker_plan: threads are the CPUs shared out, at least one", "[unit]") {
  NodeFacts crowded = node_facts;
  crowded.cpus = 1;

  CHECK(variable(planned({})[0], "OMP_NUM_THREADS") == "4");
  CHECK(variable(planned({}, {}, crowded)[0], "OMP_NUM_THREADS") == "1");
}

TEST_CASE("worker_plan: without files there is no error file and everything is on the console", "[unit]") {
  NodeFacts no_files = node_facts;
  no_files.log_root.clear();

  for (auto const& worker : planned({"-r", "3", "-t", "3", "--local-ranks-filter", "0"}, {}, no_files)) {
    CHECK(worker.out == StreamPlan{"", true});
    CHECK(worker.err == StreamPlan{"", true});
    CHECK(variable(worker, "TORCHELASTIC_ERROR_FILE").empty());
  }
}

TEST_CASE("worker_plan: the filter silences consoles, never files", "[unit]") {
  auto const teed = planned({"--local-ranks-filter", "0", "-t", "3"});
  CHECK(teed[0].out.console);
  CHECK(teed[1].out == StreamPlan{"/logs/42.0_node2/attempt_3/1/stdout.log", false});

  auto const plain = planned({"--local-ranks-filter", "0"});
  CHECK(plain[0].out == StreamPlan{"", true});
  CHECK(plain[1].out == StreamPlan{"", false});

  CHECK(planned({"-r", "3"})[0].err == StreamPlan{"/logs/42.0_node2/attempt_3/0/stderr.log", false});
}

TEST_CASE("worker_plan: --ranks silences the consoles of other ranks, never files, and not against the filter",
          "[unit]") {
  auto const teed = planned({"--ranks", "0-4", "-t", "3"});  // this node has the ranks from 4 on
  CHECK(teed[0].out.console);
  CHECK(teed[1].out == StreamPlan{"/logs/42.0_node2/attempt_3/1/stdout.log", false});
  CHECK(teed[1].err == StreamPlan{"/logs/42.0_node2/attempt_3/1/stderr.log", false});
  CHECK(planned({"--ranks", "1,5"})[0].out == StreamPlan{"", false});
  CHECK(planned({"--ranks", "1,5"})[1].err == StreamPlan{"", true});
  for (auto const& worker : planned({"--ranks", "4", "--local-ranks-filter", "1"})) {  // ranks that both list
    CHECK_FALSE(worker.out.console);
  }
  NodeFacts no_files = node_facts;
  no_files.log_root.clear();
  CHECK(planned({"--ranks", "5"}, {}, no_files)[0].out == StreamPlan{"", false});
  CHECK(planned({"--ranks", "5"}, {}, no_files)[1].out == StreamPlan{"", true});
}

TEST_CASE("worker_plan: the prefix follows torchrun's template when there is one", "[unit]") {
  CHECK(planned({})[1].prefix == "[node2:5] ");
  CHECK(planned({"--role", "t", "--log-line-prefix-template", "${role_name}${local_rank}/${rank}@${hostname}:"})[1]
            .prefix == "t1/5@node2:");
  CHECK(planned({"--log-line-prefix-template", "${host} ${ranks} $rank "})[1].prefix == "node2 ${ranks} $rank ");
  CHECK(planned({"--log-line-prefix-template="})[1].prefix == "[node2:5] ");
}

TEST_CASE("worker_plan: filters duplicate what is on the console, into one file of the generation", "[unit]") {
  Words const words = {"--duplicate-stdout-filters", "a,b", "--duplicate-stderr-filters", "c"};
  for (auto const& worker : planned(words)) {
    CHECK(worker.out == StreamPlan{"", true, {"a", "b"}, "/logs/42.0_node2/attempt_3/filtered_stdout.log"});
    CHECK(worker.err == StreamPlan{"", true, {"c"}, "/logs/42.0_node2/attempt_3/filtered_stderr.log"});
  }
  auto with = [&words](Words more) {
    more.insert(more.end(), words.begin(), words.end());
    return planned(more);
  };
  CHECK(with({"-t", "3"})[1].out.filters == Words{"a", "b"});
  CHECK(with({"-r", "3"})[1].out.filters.empty());
  CHECK(with({"--local-ranks-filter", "0"})[0].out.filters == Words{"a", "b"});
  CHECK(with({"--local-ranks-filter", "0"})[1].out == StreamPlan{"", false});
}

TEST_CASE("worker_plan: with --virtual-local-rank each worker is local rank 0 and sees its own device alone",
          "[unit]") {
  auto const among = [](Environment const& inherited) {
    auto const worker = planned({"--virtual-local-rank"}, inherited)[1];
    CHECK(variable(worker, "LOCAL_RANK") == "0");
    CHECK(variable(worker, "LOCAL_WORLD_SIZE") == "2");
    CHECK(worker.local_rank == 1);
    CHECK(worker.gpu == variable(worker, "CUDA_VISIBLE_DEVICES"));
    return worker.gpu;
  };
  CHECK(among({}) == "1");
  CHECK(command_of({"--virtual-local-rank", "./train", "${local_rank}"}) == Words{"./train", "1"});
  CHECK(among({{"CUDA_VISIBLE_DEVICES", "4, GPU-7f"}}) == "GPU-7f");
  CHECK(variable(planned({}, {{"CUDA_VISIBLE_DEVICES", "4,7"}})[1], "CUDA_VISIBLE_DEVICES") == "4,7");
  CHECK(planned({}, {{"CUDA_VISIBLE_DEVICES", "4,7"}})[1].gpu == "7");
}

TEST_CASE("worker_plan: --virtual-local-rank wants a device for each worker", "[unit]") {
  auto const why = [](Words const& words, Environment const& inherited, NodeFacts const& facts = node_facts) {
    auto const checked = check_devices(options_for(words), facts, inherited);
    return checked ? "" : checked.error().context;
  };
  CHECK(why({"--virtual-local-rank"}, {{"HIP_VISIBLE_DEVICES", "5"}}).find("HIP_VISIBLE_DEVICES=5 has no device for") !=
        std::string::npos);
  CHECK(why({"--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "0,1"}}).empty());
  CHECK(why({"--virtual-local-rank"}, {}).empty());
  CHECK(why({}, {{"CUDA_VISIBLE_DEVICES", "0"}}).empty());
  CHECK(
      why({"--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "0"}}) ==
      "--virtual-local-rank: CUDA_VISIBLE_DEVICES=0 has no device for local rank 1; give --nproc-per-node, at most the "
      "number of devices");
  NodeFacts task = node_facts;
  task.workers = 1;
  task.task = TaskPlace{6, 2, 4, 1, 2, false};
  CHECK(why({"--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "0,1,2"}}, task).empty());
  CHECK_FALSE(why({"--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "0,1"}}, task).empty());
  task.task->own_devices = true;
  CHECK(why({"--virtual-local-rank"}, {{"CUDA_VISIBLE_DEVICES", "3"}}, task).empty());
}

TEST_CASE("worker_plan: workers are told which signals end the job", "[unit]") {
  CHECK(variable(planned({"--signals-to-handle", "SIGUSR2,SIGTERM"})[0], "TORCHELASTIC_SIGNALS_TO_HANDLE") ==
        "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR2");
}

TEST_CASE("worker_plan: the package's bootstrap leads PYTHONPATH of workers and of the warm Python, once", "[unit]") {
  NodeFacts facts = node_facts;
  facts.bootstrap = "/opt/b";
  for (auto const& [before, after] : std::vector<std::pair<std::string, std::string>>{{"", "/opt/b"},
                                                                                      {"/a:", "/opt/b:/a:"},
                                                                                      {"/opt/b", "/opt/b"},
                                                                                      {"/opt/b:/a", "/opt/b:/a"},
                                                                                      {"/opt/bc", "/opt/b:/opt/bc"}}) {
    Environment const inherited{{"PYTHONPATH", before}};
    CHECK(variable(plan_workers(third_generation(), options_for({}), facts, inherited)[0], "PYTHONPATH") == after);
    CHECK(variable(plan_zygote(options_for({}), facts, inherited), "PYTHONPATH") == after);
  }
  facts.bootstrap.clear();
  CHECK(variable(plan_workers(third_generation(), options_for({}), facts, {{"PYTHONPATH", "/a"}})[0], "PYTHONPATH") ==
        "/a");
}

TEST_CASE("worker_plan: a task that sees all devices counts itself among the tasks of its node", "[unit]") {
  NodeFacts facts = node_facts;
  facts.task = TaskPlace{6, 2, 4, 1, 2, false};
  Generation generation = third_generation();
  generation.group_rank = generation.rank_base = 6;
  generation.local_size = 1;
  generation.group_size = generation.world_size = 8;
  auto const worker = plan_workers(generation, options_for({"x${local_rank}"}), facts, {}).at(0);

  CHECK(variable(worker, "RANK") == "6");
  CHECK(variable(worker, "LOCAL_RANK") == "2");
  CHECK(variable(worker, "LOCAL_WORLD_SIZE") == "4");
  CHECK(variable(worker, "GROUP_RANK") == "1");
  CHECK(variable(worker, "GROUP_WORLD_SIZE") == "2");
  CHECK(variable(worker, "NODE_RANK") == "1");
  CHECK(variable(worker, "CROSS_RANK") == "1");
  CHECK(variable(worker, "CROSS_SIZE") == "2");
  CHECK(variable(worker, "LOCAL_SIZE") == "4");
  CHECK(worker.local_rank == 0);
  CHECK(worker.error_file == "/logs/42.0_node2/attempt_3/0/error.json");
}

TEST_CASE("worker_plan: a task that sees devices of its own is local rank 0 of 1", "[unit]") {
  NodeFacts facts = node_facts;
  facts.task = TaskPlace{5, 1, 4, 1, 2, true};
  Generation generation = third_generation();
  generation.group_rank = generation.rank_base = 5;
  generation.local_size = 1;
  generation.group_size = 8;
  auto const worker = plan_workers(generation, options_for({}), facts, {}).at(0);

  CHECK(variable(worker, "LOCAL_RANK") == "0");
  CHECK(variable(worker, "LOCAL_WORLD_SIZE") == "1");
  CHECK(variable(worker, "GROUP_RANK") == "5");
  CHECK(variable(worker, "GROUP_WORLD_SIZE") == "8");
}

TEST_CASE("worker_plan: the logs of several tasks on a node have names of their own, however long the host's",
          "[unit]") {
  NodeFacts facts = node_facts;
  CHECK(log_place(facts) == "node2");
  facts.task = TaskPlace{1234, 2, 4, 1, 2, false};
  CHECK(log_place(facts) == "node2_task1234");
  facts.host = std::string(64, 'n');
  CHECK(log_place(facts).size() < 40);
  CHECK(log_place(facts).ends_with("_task1234"));
}

TEST_CASE("worker_plan: only global rank 0 may have the standard input", "[unit]") {
  Generation first = third_generation();
  first.rank_base = 0;
  auto const workers = plan_workers(first, options_for({"--stdin", "rank0"}), node_facts, {});

  CHECK(workers[0].inherit_stdin);
  CHECK_FALSE(workers[1].inherit_stdin);
  CHECK_FALSE(planned({"--stdin", "rank0"})[0].inherit_stdin);
}

TEST_CASE("worker_plan: a program on standard input is refused, unless nothing is there or one worker alone gets it",
          "[unit]") {
  auto const check = [](Words const& words, bool null_input, bool several) {
    return check_program_source(std::get<Options>(parse_options(words, {})), {}, null_input, several);
  };
  auto const refused = check({"python3", "-"}, false, false);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == cxxrun::Errc::usage);
  CHECK_THAT(refused.error().message(), Catch::StartsWith("python3 would read what to run from standard input"));
  CHECK(check({"python3", "-"}, true, true).value().empty());
  CHECK(check({"cat"}, false, true).value().empty());
  CHECK(check({"--stdin", "rank0", "bash"}, false, false).value().empty());
  CHECK_THAT(check({"--stdin", "rank0", "bash"}, false, true).value(),
             Catch::StartsWith("bash reads what to run from standard input, in rank 0 alone"));
}

TEST_CASE("worker_plan: no line of the rank that has the standard input is held to be folded", "[unit]") {
  Generation first = third_generation();
  first.rank_base = 0;
  first.local_size = 8;
  auto const workers = plan_workers(first, options_for({"--stdin", "rank0"}), node_facts, {});

  CHECK_FALSE(workers[0].out.fold);
  CHECK_FALSE(workers[0].err.fold);
  CHECK(workers[1].out.fold);
  CHECK(plan_workers(first, options_for({}), node_facts, {})[0].err.fold);
}

TEST_CASE("worker_plan: --agent-store=off tells the script to bind the port itself", "[unit]") {
  auto const worker = planned({"--agent-store", "off"})[0];

  CHECK(variable(worker, "TORCHELASTIC_USE_AGENT_STORE") == "False");
  CHECK(variable(worker, "MASTER_PORT") == "40001");
  CHECK(variable(worker, "CXXRUN_STORE_PORT") == "40002");
}

TEST_CASE("worker_plan: the environment is sorted as words, names that extend others included", "[unit]") {
  auto const words = planned({}, {{"RANK_X", "1"}, {"RANK0", "1"}})[0].environment;

  CHECK(std::is_sorted(words.begin(), words.end()));
}

TEST_CASE("worker_plan: a script is named for the start to look for, a program or module is not", "[unit]") {
  auto const script_of = [](Words const& words) {
    return plan_workers(third_generation(), std::get<Options>(parse_options(words, {})), node_facts, {})[0].script;
  };
  CHECK(script_of({"train.py", "x"}) == "train.py");
  CHECK(script_of({"-m", "train.py"}).empty());
  CHECK(script_of({"--no-python", "train.py"}).empty());
  CHECK(script_of({"./train"}).empty());
}

TEST_CASE("worker_plan: bound workers get their CPUs, and OMP_NUM_THREADS fits the smallest share", "[unit]") {
  NodeFacts facts = node_facts;
  facts.cpu_sets = {{0, 1, 2, 8, 9, 10}, {3, 4, 5}};
  auto const workers = planned({}, {}, facts);

  CHECK(workers[0].cpus == CpuSet{0, 1, 2, 8, 9, 10});
  CHECK(workers[1].cpus == CpuSet{3, 4, 5});
  CHECK(variable(workers[0], "OMP_NUM_THREADS") == "3");  // 9 CPUs of 2 workers would be 4
  CHECK(variable(planned({}, {{"OMP_NUM_THREADS", "7"}}, facts)[0], "OMP_NUM_THREADS") == "7");
  CHECK(planned({})[0].cpus.empty());
}

TEST_CASE("worker_plan: where the agent listens is told, and never where one around it did", "[unit]") {
  NodeFacts facts = node_facts;
  Environment const outer{{"CXXRUN_AGENT", "outer"}, {"CXXRUN_PROVER", "outer"}};
  CHECK(variable(planned({}, outer, facts).at(0), "CXXRUN_AGENT") == "(unset)");
  facts.agent_socket = "cxxrun-1";
  CHECK(variable(planned({}, outer, facts).at(0), "CXXRUN_AGENT") == "cxxrun-1");
  CHECK(variable(planned({}, outer, facts).at(0), "CXXRUN_PROVER") == "(unset)");
  facts.prover = "cxxrun-1";
  CHECK(variable(planned({}, outer, facts).at(0), "CXXRUN_PROVER") == "cxxrun-1");
  CHECK(variable(planned({}, {{"CXXRUN_HANG_TIMEOUT", "7"}}, facts).at(0), "CXXRUN_HANG_TIMEOUT") == "(unset)");
  CHECK(variable(planned({"--hang-timeout", "1.5"}, outer, facts).at(0), "CXXRUN_HANG_TIMEOUT") == "1.5");
}

TEST_CASE("worker_plan: a process manager's identity goes to the one worker of a task, and to none of several",
          "[unit]") {
  Environment const inherited{{"PMI_RANK", "1"}, {"PMI_FD", "9"}, {"OMPI_MCA_btl", "tcp"}};
  NodeFacts facts = node_facts;
  facts.mpi_descriptors = {9};
  auto generation = third_generation();
  auto const each = plan_workers(generation, options_for({}), facts, inherited);
  generation.local_size = facts.workers = 1;
  auto const alone = plan_workers(generation, options_for({}), facts, inherited);

  CHECK(variable(each.at(1), "PMI_RANK") == "(unset)");
  CHECK(variable(each.at(1), "OMPI_MCA_btl") == "tcp");
  CHECK(each.at(1).keep.empty());
  CHECK(variable(alone.at(0), "PMI_RANK") == "1");
  CHECK(variable(alone.at(0), "PMI_FD") == "9");
  CHECK(alone.at(0).keep == std::vector{9});
}

TEST_CASE("worker_plan: neither the health check nor the warm Python is that rank", "[unit]") {
  Environment const inherited{{"PMI_RANK", "1"}, {"PMI_FD", "9"}};
  NodeFacts facts = node_facts;
  facts.mpi_descriptors = {9};
  facts.workers = 1;
  auto const zygote = plan_zygote(options_for({}), facts, inherited);
  auto const check = plan_check(third_generation(), options_for({}), facts, inherited);

  CHECK(variable(zygote, "PMI_RANK") == "(unset)");
  CHECK(zygote.keep.empty());
  CHECK(variable(check, "PMI_RANK") == "(unset)");
  CHECK(check.keep.empty());
}

TEST_CASE("worker_plan: a worker gets one of the MIG devices, as CUDA would show all of them the first", "[unit]") {
  Environment const mig{{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}};
  auto const workers = planned({}, mig);
  CHECK(variable(workers.at(0), "CUDA_VISIBLE_DEVICES") == "MIG-a");
  CHECK(variable(workers.at(1), "CUDA_VISIBLE_DEVICES") == "MIG-b");
  CHECK(variable(workers.at(1), "LOCAL_RANK") == "0");

  NodeFacts task = node_facts;
  task.task = TaskPlace{3, 3, 4, 0, 1, false};
  auto generation = third_generation();
  generation.local_size = task.workers = 1;
  auto const worker = plan_workers(generation, options_for({}), task, mig).at(0);
  CHECK(variable(worker, "CUDA_VISIBLE_DEVICES") == "MIG-b");
  CHECK(variable(worker, "LOCAL_RANK") == "0");
}

TEST_CASE("worker_plan: who goes on hears first who it is, then all the rest", "[unit]") {
  auto const worker = planned({}, {{"AAA", "1"}, {"ZZZ", "2"}, {"PATH", "/bin"}, {"SLURM_JOB_ID", "7"}}).at(1);
  auto const told = resume_environment(worker);
  CHECK(std::is_permutation(told.begin(), told.end(), worker.environment.begin(), worker.environment.end()));
  auto const at = [&](std::string const& word) { return std::find(told.begin(), told.end(), word) - told.begin(); };
  for (auto const* const ours : {"RANK=5", "WORLD_SIZE=6", "LOCAL_RANK=1", "GROUP_RANK=1", "MASTER_PORT=40001",
                                 "CXXRUN_GENERATION=3", "TORCHELASTIC_RESTART_COUNT=1", "SLURM_JOB_ID=7"}) {
    CHECK(at(ours) < at("AAA=1"));
  }
  CHECK(at("AAA=1") < at("ZZZ=2"));
}
