#include "launcher/place/slurm_env.hpp"

#include <filesystem>

#include "launcher/options/options.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using cxxrun::launcher::Environment;
using cxxrun::launcher::lost_slurm;
using cxxrun::launcher::NodeRange;
using cxxrun::launcher::Options;
using cxxrun::launcher::read_slurm;
using cxxrun::launcher::SlurmStep;
using cxxrun::launcher::SlurmView;
using cxxrun::launcher::Whereabouts;
using cxxrun::launcher::without_false_step;
using cxxrun::testing::recorded_environment;
using Names = std::vector<std::string>;

namespace {

std::string mistake(Environment const& environment) {
  auto const view = read_slurm(environment);
  REQUIRE_FALSE(view.has_value());
  CHECK(view.error().code == cxxrun::Errc::environment);
  return view.error().context;
}

Environment plain_with(std::string const& name, std::string const& value) {
  Environment environment = recorded_environment("env-plain.txt", "task 1 on node2");
  environment[name] = value;
  return environment;
}

}  // namespace

TEST_CASE("slurm_env: outside Slurm there is no step and nothing to say", "[unit]") {
  CHECK(read_slurm({{"PATH", "/bin"}}).value() == SlurmView{});
}

TEST_CASE("slurm_env: a task of a plain step", "[unit]") {
  auto const view = read_slurm(recorded_environment("env-plain.txt", "task 1 on node2")).value();

  CHECK(view == SlurmView{SlurmStep{"3.0", Names{"node1", "node2"}, 1, 0, 1, false, 1, 2}, {}});
}

TEST_CASE("slurm_env: every recorded task is understood and agrees with Slurm's own node name", "[unit]") {
  for (auto const& [file, section] : std::map<std::string, std::string>{{"env-cpt.txt", "task 0 on node1"},
                                                                        {"env-gpus-per-node.txt", "task 1 on node2"},
                                                                        {"env-gpus-per-task.txt", "task 0 on node1"},
                                                                        {"env-gpus-total.txt", "task 1 on node2"},
                                                                        {"env-gres.txt", "task 0 on node1"},
                                                                        {"env-n5-uneven.txt", "task 4 on node3"},
                                                                        {"sbatch-array.txt", "task 1 on node2"},
                                                                        {"sbatch-gpus-per-node.txt", "task 1 on node2"},
                                                                        {"sbatch-gpus-per-task.txt", "task 1 on node2"},
                                                                        {"sbatch-gres.txt", "task 1 on node2"}}) {
    CAPTURE(file);
    auto const environment = recorded_environment(file, section);
    auto const view = read_slurm(environment).value();
    REQUIRE(view.step.has_value());
    CHECK(view.step->node_names.at(view.step->node_index) == environment.at("SLURMD_NODENAME"));
    CHECK(view.notes.empty());
  }
}

TEST_CASE("slurm_env: several tasks on a node, also when the counts are uneven", "[unit]") {
  auto const four = read_slurm(recorded_environment("env-gpus-per-task-4tasks.txt", "task 6 on node2")).value();
  CHECK(*four.step == SlurmStep{"7.0", Names{"node1", "node2"}, 1, 2, 4, true, 6, 8});

  auto const lone = read_slurm(recorded_environment("env-n5-uneven.txt", "task 4 on node3")).value();
  CHECK(*lone.step == SlurmStep{"10.0", Names{"node1", "node2", "node3"}, 2, 0, 1, true, 4, 5});
}

TEST_CASE("slurm_env: a batch script is no task, and is told about srun", "[unit]") {
  auto const view = read_slurm(recorded_environment("sbatch-nogpu-timelimit.txt", "batch 0 on node1")).value();

  CHECK(view == SlurmView{std::nullopt, Names{"the Slurm job has 2 nodes but this runs on one; start cxxrun with srun "
                                              "to use them all"}});
}

TEST_CASE("slurm_env: a batch script that a task has submitted is not in the step of that task", "[unit]") {
  auto environment = recorded_environment("env-plain.txt", "task 1 on node2");
  environment["SLURM_JOB_ID"] = "9";
  environment["SLURM_PROCID"] = environment["SLURM_NODEID"] = "0";  // by slurmstepd, in each batch script
  for (char const* const title : {"slurmstepd: [8.0]", "slurmstepd: [9.batch]", "slurmstepd: [9.batch]\n"}) {
    auto const batch = without_false_step(environment, title);
    CHECK_FALSE(read_slurm(batch).value().step.has_value());
    CHECK(batch.at("SLURM_JOB_ID") == "9");
    CHECK(batch.at("SLURM_NTASKS") == environment.at("SLURM_NTASKS"));
  }
  for (char const* const title : {"slurmstepd: [9.0]", "slurmstepd: [9.interactive]", "slurmstepd", ""}) {
    CHECK(without_false_step(environment, title) == environment);
  }
}

TEST_CASE("slurm_env: an interactive step of salloc is no task", "[unit]") {
  for (char const* const id : {"4294967290", "-5", "-6", "-1", "99999999999999999999"}) {
    auto const view = read_slurm(plain_with("SLURM_STEP_ID", id));
    CHECK_FALSE(view.value().step.has_value());
    CHECK(view.value().notes.size() == 1);
    auto const outside = without_false_step(plain_with("SLURM_STEP_ID", id), "");
    CHECK_FALSE(outside.contains("SLURM_STEP_ID"));
    CHECK_FALSE(outside.contains("SLURM_STEP_NODELIST"));
    CHECK(outside.contains("SLURM_JOB_ID"));
  }
  for (char const* const id : {"0", "4294967280"}) {
    CHECK(read_slurm(plain_with("SLURM_STEP_ID", id)).value().step.has_value());
  }
  for (char const* const id : {"-", "-x", "5x"}) {
    CHECK(mistake(plain_with("SLURM_STEP_ID", id)).find("SLURM_STEP_ID") != std::string::npos);
  }
}

TEST_CASE("slurm_env: what Slurm 24.11 and 26.05 tell tasks and batch scripts is understood", "[unit]") {
  std::size_t tasks = 0;
  std::size_t batches = 0;
  for (char const* const release : {"24.11.5", "26.05.5"}) {
    for (auto const& file :
         std::filesystem::directory_iterator(CXXRUN_SOURCE_DIR "/tests/data/slurm_env/" + std::string(release))) {
      std::string const name = release + std::string("/") + file.path().filename().string();
      for (auto const& section : cxxrun::testing::recorded_sections(name)) {
        INFO(name << " [" << section << "]");
        auto const environment = recorded_environment(name, section);
        auto const view = read_slurm(environment);
        if (environment.contains("SLURM_HET_SIZE") && section.starts_with("task")) {
          CHECK_FALSE(view.has_value());
          continue;
        }
        REQUIRE(view.has_value());
        REQUIRE(view->step.has_value() == section.starts_with("task"));
        ++(view->step ? tasks : batches);
        if (view->step) {
          CHECK(section.starts_with("task " + std::to_string(view->step->process) + " on " +
                                    view->step->node_names.at(view->step->node_index)));
        }
      }
    }
  }
  CHECK(tasks > 100);
  CHECK(batches > 15);
}

TEST_CASE("slurm_env: below a worker of this step nothing is a task, in another step everything is", "[unit]") {
  for (auto const& [file, section] : std::map<std::string, std::string>{
           {"env-plain.txt", "task 1 on node2"}, {"env-gpus-per-task-4tasks.txt", "task 6 on node2"}}) {
    auto worker = recorded_environment(file, section);
    worker["CXXRUN_RUN_ID"] = "mine";
    worker["CXXRUN_JOB_STEP"] = worker["SLURM_JOB_ID"] + ".0";
    worker["SLURM_STEP_TASKS_PER_NODE"] = "2(x7)";  // of the workers: of no use here

    auto const view = read_slurm(worker).value();

    CHECK_FALSE(view.step.has_value());
    CHECK(view.notes.empty());
    CHECK(view.remark.starts_with("below a worker of cxxrun (run mine) and not a task of Slurm"));
    worker["CXXRUN_JOB_STEP"] = worker["SLURM_JOB_ID"] + ".1";
    CHECK_FALSE(read_slurm(worker).has_value());
  }
}

TEST_CASE("slurm_env: what is typed into the shell of srun --pty is no task, what srun starts there is", "[unit]") {
  auto shell = recorded_environment("env-gpus-per-task-4tasks.txt", "task 0 on node1");
  Whereabouts const typed{"node1", true};
  CHECK(read_slurm(shell, typed).value().step.has_value());
  shell["SLURM_PTY_PORT"] = "40001";

  auto const view = read_slurm(shell, typed).value();

  CHECK_FALSE(view.step.has_value());
  CHECK(view.notes == Names{"this was typed into the shell of srun --pty, the only one of 8 tasks that is left: a job "
                            "of this node alone; for all nodes type: srun --overlap cxxrun ..."});
  CHECK(read_slurm(shell, {"node1", false}).value().step.has_value());
  auto other = recorded_environment("env-gpus-per-task-4tasks.txt", "task 3 on node1");
  other["SLURM_PTY_PORT"] = "40001";
  CHECK(read_slurm(other, typed).value().step.has_value());
}

TEST_CASE("slurm_env: a shell beside the allocation is told that its workers are, too", "[unit]") {
  Environment salloc{{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "gpu[17-18]"}, {"SLURM_JOB_NUM_NODES", "1"}};
  auto const said = [&](char const* host) { return read_slurm(salloc, {host, false}).value().notes; };

  CHECK(said("login1") ==
        Names{"this runs on login1, which is no node of the Slurm job 7 (gpu[17-18]): workers started "
              "here use none of its nodes; start cxxrun with srun"});
  CHECK(said("gpu18").empty());
  CHECK(said("gpu18.cluster").empty());
  CHECK(said("").empty());
  salloc["SLURM_JOB_NUM_NODES"] = "2";
  CHECK(said("login1").size() == 1);
  CHECK(said("gpu17").front().starts_with("the Slurm job has 2 nodes but this runs on one"));
  salloc["SLURMD_NODENAME"] = "gpu17";  // slurmd's word, whatever the host is called
  CHECK(said("ip-10-0-0-7").front().starts_with("the Slurm job has 2 nodes"));
  salloc["SLURMD_NODENAME"] = "cpu3";  // salloc typed in a job on cpu3
  CHECK(said("cpu3").front().starts_with("this runs on cpu3, which is no node"));
  salloc["CXXRUN_RUN_ID"] = "mine";
  salloc["CXXRUN_JOB_STEP"] = "7";
  CHECK(said("cpu3").empty());  // the cxxrun above has said so
}

TEST_CASE("slurm_env: a smaller step counts its own nodes, not the job's", "[unit]") {
  Environment environment = plain_with("SLURM_STEP_NODELIST", "node[2,4]");
  environment["SLURMD_NODENAME"] = "node4";
  environment["SLURM_JOB_NODELIST"] = "node[1-4]";
  environment["SLURM_JOB_NUM_NODES"] = "4";

  CHECK(read_slurm(environment).value().step->node_names == Names{"node2", "node4"});
}

TEST_CASE("slurm_env: a requeued job is another run", "[unit]") {
  CHECK(read_slurm(plain_with("SLURM_RESTART_COUNT", "2")).value().step->run_id == "3.0.2");
  CHECK(read_slurm(plain_with("SLURM_RESTART_COUNT", "0")).value().step->run_id == "3.0");
}

TEST_CASE("slurm_env: each missing variable is named", "[unit]") {
  Environment const whole = recorded_environment("env-plain.txt", "task 1 on node2");
  for (char const* const name : {"SLURM_JOB_ID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_PROCID", "SLURM_STEP_NODELIST",
                                 "SLURM_STEP_NUM_NODES", "SLURM_STEP_TASKS_PER_NODE"}) {
    CAPTURE(name);
    Environment environment = whole;
    environment.erase(name);
    CHECK(mistake(environment)
              .starts_with(std::string("Slurm environment: SLURM_STEP_ID is set but ") + name +
                           " is not; pass all SLURM_* variables on"));
  }
  Environment without_step = whole;
  without_step.erase("SLURM_STEP_ID");
  CHECK(mistake(without_step).starts_with("Slurm environment: SLURM_STEP_NODELIST is set but SLURM_STEP_ID is not"));
  CHECK(
      mistake({{"SLURM_PROCID", "0"}}).starts_with("Slurm environment: SLURM_PROCID is set but SLURM_JOB_ID, SLURM_"));
  CHECK(mistake({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "1"}})
            .starts_with("Slurm environment: SLURM_PROCID is set but SLURM_NODEID, SLURM_STEP_ID, "));
}

TEST_CASE("slurm_env: the tasks of an array have names of their own", "[unit]") {
  Environment first = plain_with("SLURM_ARRAY_JOB_ID", "15");
  first["SLURM_ARRAY_TASK_ID"] = "0";
  first["SLURM_JOB_ID"] = "16";

  CHECK(read_slurm(first).value().step->run_id == "16.0");
  CHECK(read_slurm(recorded_environment("sbatch-array.txt", "task 1 on node2")).value().step->run_id.ends_with(".0"));
}

TEST_CASE("slurm_env: heterogeneous jobs are refused, parts alone can be asked for", "[unit]") {
  Environment environment = recorded_environment("het.txt", "task 1 on node3");
  std::string const line = mistake(environment);

  CHECK(line.starts_with("heterogeneous Slurm job (SLURM_HET_SIZE=2): not supported; submit a job without ':'"));
  CHECK(line.find("srun --het-group=N env -u SLURM_HET_SIZE -u SLURM_PACK_SIZE cxxrun") != std::string::npos);
  environment.erase("SLURM_HET_SIZE");
  CHECK(mistake(environment).starts_with("heterogeneous Slurm job (SLURM_PACK_SIZE=2)"));
  environment.erase("SLURM_PACK_SIZE");
  CHECK(read_slurm(environment).value().step->node_names == Names{"node2", "node3"});
}

TEST_CASE("slurm_env: the steps that Slurm makes for itself are no tasks of srun's", "[unit]") {
  CHECK_FALSE(read_slurm(plain_with("SLURM_STEP_ID", "4294967291")).value().step.has_value());
  CHECK(read_slurm(plain_with("SLURM_STEP_ID", "4294967280")).value().step.has_value());
}

TEST_CASE("slurm_env: (null) is no value", "[unit]") {
  for (char const* const name : {"SLURM_STEP_NODELIST", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"}) {
    CHECK(mistake(plain_with(name, "(null)"))
              .starts_with(std::string("Slurm environment: ") + name + " is (null), so Slurm had no value for it; "));
  }
}

TEST_CASE("slurm_env: a list that does not fit this node is noticed", "[unit]") {
  CHECK(mistake(plain_with("SLURM_STEP_NODELIST", "node[3-4]"))
            .starts_with("Slurm environment: SLURMD_NODENAME is node2, which SLURM_STEP_NODELIST does not name; "));
  CHECK(mistake(plain_with("SLURM_STEP_NODELIST", "node2,node1"))
            .starts_with("Slurm environment: SLURMD_NODENAME is node2 but node 1 of SLURM_STEP_NODELIST (SLURM_NODEID) "
                         "is node1; "));
}

TEST_CASE("slurm_env: hostile values give one short line, at once", "[unit]") {
  std::string names = "a";
  for (int i = 0; names.size() < (1U << 20U); ++i) {
    names += ",rack" + std::to_string(i) + "node" + std::to_string(i);
  }
  std::string const ranges = "n[" + names.substr(1) + "]";
  for (auto const& list :
       {names, ranges, std::string(1U << 20U, 'x'), std::string(1U << 20U, '['), std::string(1U << 20U, ','),
        "n[1" + std::string(1U << 20U, '1') + "]", std::string("node[1-99999999]"), std::string("node[0-65535][0-9]"),
        std::string("\n\033[31m"), std::string("node[-1]")}) {
    std::string const line = mistake(plain_with("SLURM_STEP_NODELIST", list));
    CAPTURE(line);
    CHECK(line.size() < 400);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.find("SLURM_STEP_NODELIST") != std::string::npos);
  }
  CHECK(mistake(plain_with("SLURM_STEP_TASKS_PER_NODE", "4000000000(x2)")).find("SLURM_STEP_TASKS_PER_NODE") !=
        std::string::npos);
}

TEST_CASE("slurm_env: variables that contradict each other are named with their values", "[unit]") {
  auto const says = [](std::string const& name, std::string const& value, std::string const& what) {
    CHECK(mistake(plain_with(name, value)).starts_with("Slurm environment: " + what + "; "));
  };

  says("SLURM_STEP_NUM_NODES", "3", "SLURM_STEP_NUM_NODES is 3 but SLURM_STEP_NODELIST names 2");
  says("SLURM_STEP_TASKS_PER_NODE", "1(x3)", "SLURM_STEP_NUM_NODES is 2 but SLURM_STEP_TASKS_PER_NODE counts 3");
  says("SLURM_NODEID", "2", "SLURM_NODEID is 2 but the step has 2 nodes");
  says("SLURM_LOCALID", "1", "SLURM_LOCALID is 1 but this node has 1 task");
  says("SLURM_STEP_NUM_TASKS", "3", "SLURM_STEP_NUM_TASKS is 3 but SLURM_STEP_TASKS_PER_NODE adds up to 2");
  says("SLURM_STEP_TASKS_PER_NODE", "2,1", "SLURM_STEP_NUM_TASKS is 2 but SLURM_STEP_TASKS_PER_NODE adds up to 3");
  says("SLURM_STEP_TASKS_PER_NODE", "65536(x2)",
       "SLURM_STEP_NUM_TASKS is 2 but SLURM_STEP_TASKS_PER_NODE adds up to 131072");
  says("SLURM_PROCID", "2", "SLURM_PROCID is 2 but the step has 2 tasks");
  says("SLURM_PROCID", "-1", "SLURM_PROCID=-1: a number from 0 to 1000000 is expected");
  says("SLURM_NODEID", "-1", "SLURM_NODEID=-1: a number from 0 to 65536 is expected");
  says("SLURM_RESTART_COUNT", "1x", "SLURM_RESTART_COUNT=1x: a number from 0 to 4294967295 is expected");
  says("SLURM_JOB_ID", "x", "SLURM_JOB_ID=x: a number from 0 to 4294967295 is expected");
  says("SLURM_STEP_NODELIST", "n[1", "SLURM_STEP_NODELIST: host list: 'n[1': a bracket is not closed");
}

TEST_CASE("slurm_env: a start without any variable is the user's only when the user describes the job", "[unit]") {
  Options alone;
  alone.standalone = true;
  Options several;
  several.nnodes = NodeRange{2, 2};

  auto const below = [](int pid) { return [pid](std::string_view) { return std::optional(pid); }; };
  CHECK(lost_slurm({}, {{"PATH", "/bin"}}, below(7)));
  CHECK_FALSE(lost_slurm({}, {{"PATH", "/bin"}}, below(0)));
  CHECK_FALSE(lost_slurm({}, {{"PATH", "/bin"}}, [](std::string_view) { return std::optional<int>(); }));
  CHECK_FALSE(lost_slurm({}, {{"SLURM_JOB_ID", "7"}}, below(7)));
  CHECK_FALSE(lost_slurm(alone, {}, below(7)));
  CHECK_FALSE(lost_slurm({}, {{"CXXRUN_RUN_ID", "mine"}, {"CXXRUN_JOB_STEP", "7.0"}}, below(7)));
  CHECK_FALSE(lost_slurm(several, {}, below(7)));
}
