#include "launcher/place/topology.hpp"

#include "launcher/options/parse_options.hpp"
#include "src/base/core/ports.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::testing::recorded_environment;
using Host = Meeting::Host;
using Source = JobTopology::Source;

namespace {

cxxrun::Result<JobTopology> attempt(std::vector<std::string> words, Environment const& environment) {
  words.emplace_back("program");
  return make_topology(std::get<Options>(parse_options(words, {})), environment, "random");
}

JobTopology made(std::vector<std::string> const& words, Environment const& environment = {}) {
  auto const topology = attempt(words, environment);
  if (!topology) {
    FAIL(topology.error().context);
  }
  return *topology;
}

std::string mistake(std::vector<std::string> const& words, Environment const& environment = {}) {
  auto const topology = attempt(words, environment);
  REQUIRE_FALSE(topology.has_value());
  return topology.error().context;
}

Environment task(std::string const& section = "task 1 on node2") {
  return recorded_environment("env-plain.txt", section);
}

Environment lone_task() {
  Environment environment = task("task 0 on node1");
  environment["SLURM_STEP_NODELIST"] = "node1";
  environment["SLURM_STEP_NUM_NODES"] = "1";
  environment["SLURM_STEP_TASKS_PER_NODE"] = "1";
  environment["SLURM_STEP_NUM_TASKS"] = "1";
  return environment;
}

std::vector<std::uint16_t> const job_ports = cxxrun::port_sequence("3.0", 16);

}  // namespace

TEST_CASE("topology: no flags and no Slurm is one node that nobody else can reach", "[unit]") {
  JobTopology expected;
  expected.run_id = "random";
  expected.node_index = 0;
  expected.meeting = Meeting{Host::me, "127.0.0.1", {0}, true};

  CHECK(made({}) == expected);
  CHECK(made({"--standalone", "--rdzv-endpoint", "h:1", "--rdzv-id", "x"}) == expected);
  CHECK(made({"--rdzv-id", "mine"}).run_id == "mine");
}

TEST_CASE("topology: zero flags under srun is the step, met at its first node", "[unit]") {
  JobTopology expected;
  expected.source = Source::slurm;
  expected.run_id = expected.step = "3.0";
  expected.min_nodes = expected.max_nodes = 2;
  expected.expected_nodes = 2;
  expected.node_index = 1;
  expected.host = "node2";
  expected.node_names = {"node1", "node2"};
  expected.meeting = Meeting{Host::other, "node1", job_ports, false};
  expected.meeting_file = discovery_name(task(), "0");

  CHECK(made({}, task()) == expected);
  CHECK(made({}, task("task 0 on node1")).meeting.host == Host::me);
}

TEST_CASE("topology: all tasks of a step agree on everything but who they are", "[unit]") {
  JobTopology one = made({}, task("task 0 on node1"));
  one.node_index = 1;
  one.host = "node2";
  one.meeting.host = Host::other;

  CHECK(one == made({}, task()));
}

TEST_CASE("topology: several tasks on a node have one host among them", "[unit]") {
  int hosts = 0;
  for (auto const& section : {"task 0 on node1", "task 3 on node1", "task 4 on node2"}) {
    auto const topology = made({}, recorded_environment("env-gpus-per-task-4tasks.txt", section));
    CHECK(topology.task->tasks_on_node == 4);
    CHECK(topology.meeting.address == "node1");
    hosts += topology.meeting.host == Host::me ? 1 : 0;
  }
  CHECK(hosts == 1);
}

TEST_CASE("topology: each of several tasks is an agent, in the order of SLURM_PROCID", "[unit]") {
  auto const topology = made({}, recorded_environment("env-gpus-per-task-4tasks.txt", "task 6 on node2"));

  CHECK(topology.min_nodes == 8);
  CHECK(topology.max_nodes == 8);
  CHECK(topology.expected_nodes == 8U);
  CHECK(topology.node_index == 6U);
  CHECK(topology.host == "node2");
  CHECK(topology.task == TaskPlace{6, 2, 4, 1, 2, true});
}

TEST_CASE("topology: the lone task of a node of an uneven step is an agent with one worker, too", "[unit]") {
  auto const lone = made({}, recorded_environment("env-n5-uneven.txt", "task 4 on node3"));

  CHECK(lone.max_nodes == 5);
  CHECK(lone.node_index == 4U);
  CHECK(lone.task == TaskPlace{4, 0, 1, 2, 3, false});
}

TEST_CASE("topology: --nnodes with several tasks is their number or the nodes', nothing else", "[unit]") {
  auto const eight = recorded_environment("env-gpus-per-task-4tasks.txt", "task 6 on node2");

  CHECK(made({"--nnodes", "2"}, eight).min_nodes == 8);
  CHECK(made({"--nnodes", "8"}, eight).min_nodes == 8);
  CHECK(mistake({"--nnodes", "1:2"}, eight) ==
        "--nnodes 1:2 with several tasks on a node of the Slurm step (8 tasks, 2 nodes): only whole nodes can come and "
        "go; use srun --ntasks-per-node=1");
  CHECK(mistake({"--nnodes", "3"}, eight).ends_with("(8 tasks, 2 nodes): every task takes part; drop --nnodes"));
}

TEST_CASE("topology: --node-rank with several tasks may be that of the node or of the task", "[unit]") {
  auto const eight = recorded_environment("env-gpus-per-task-4tasks.txt", "task 6 on node2");

  CHECK(made({"--node-rank", "1"}, eight).node_index == 6U);
  CHECK(made({"--node-rank", "6"}, eight).node_index == 6U);
  CHECK(mistake({"--node-rank", "2"}, eight).starts_with("--node-rank 2 contradicts SLURM_NODEID=1"));
}

TEST_CASE("topology: task 0 of node 0 hosts, wherever process 0 is", "[unit]") {
  std::map<std::string, Host> const hosts{{"task 0 on node2", Host::other},
                                          {"task 1 on node1", Host::me},
                                          {"task 2 on node1", Host::other},
                                          {"task 3 on node3", Host::other}};
  for (auto const& [section, host] : hosts) {
    CAPTURE(section);
    auto const topology = made({}, recorded_environment("arbitrary.txt", section));
    CHECK(topology.meeting.host == host);
    CHECK(topology.meeting.address == "node1");
  }
  CHECK(
      mistake({"--agent-store", "off"}, recorded_environment("arbitrary.txt", "task 3 on node3"))
          .starts_with("srun -m arbitrary without the agent's store: rank 0 may be on another node than MASTER_ADDR"));
}

TEST_CASE("topology: that tasks see GPUs of their own is said once, by the task that hosts", "[unit]") {
  std::string const file = "env-gpus-per-task-4tasks.txt";

  CHECK(made({}, recorded_environment(file, "task 0 on node1")).remarks.size() == 1);
  CHECK(made({}, recorded_environment(file, "task 1 on node1")).remarks.empty());
  CHECK(made({}, recorded_environment(file, "task 4 on node2")).remarks.empty());
  CHECK(made({}, recorded_environment("env-n5-uneven.txt", "task 0 on node1")).remarks.empty());
}

TEST_CASE("topology: several tasks on a single node meet on loopback, unless told otherwise", "[unit]") {
  auto const step = recorded_environment("gpu-bind.txt", "none 1");

  CHECK(made({}, step).meeting.host == Host::other);
  CHECK(made({}, step).meeting.address == "127.0.0.1");
  CHECK(made({}, step).meeting.loopback_only);
  CHECK(made({"--rdzv-endpoint", "localhost:29500"}, step).meeting == Meeting{Host::other, "localhost", {29500}, true});
  CHECK_FALSE(made({"--rdzv-endpoint", "node1:29500"}, step).meeting.loopback_only);
  CHECK_FALSE(made({"--local-addr", "10.0.0.1"}, step).meeting.loopback_only);
  CHECK(made({"--local-addr", "127.0.0.1"}, step).master_addr == "127.0.0.1");
}

TEST_CASE("topology: --nnodes under Slurm may be smaller or elastic, not larger than the step", "[unit]") {
  auto const elastic = made({"--nnodes", "1:4"}, task());

  CHECK(elastic.min_nodes == 1);
  CHECK(elastic.max_nodes == 4);
  CHECK(elastic.expected_nodes == 2U);
  CHECK(
      mistake({"--nnodes", "1"}, task()).starts_with("--nnodes 1 leaves nothing to do for the other nodes of the Sl"));
  CHECK(mistake({"--nnodes", "3"}, task()) ==
        "--nnodes 3 needs more than the 2 nodes of the Slurm step; use srun -N3, or drop --nnodes");
  CHECK(mistake({"--nnodes", "2:4"}, lone_task()).starts_with("--nnodes 2:4 needs more than the 1 node of the Slurm"));
}

TEST_CASE("topology: an endpoint on a node of the step makes that node host", "[unit]") {
  auto const here = made({"--rdzv-endpoint", "NODE2.cluster:29500"}, task());

  CHECK(here.meeting == Meeting{Host::me, "NODE2.cluster", {29500}, false});
  CHECK(here.notes.size() == 1);
  CHECK(made({"--rdzv-endpoint", "node1"}, task()).meeting == Meeting{Host::other, "node1", job_ports, false});
  CHECK(made({"--rdzv-endpoint", "10.77.0.1:29500"}, task()).meeting.host == Host::find_out);
}

TEST_CASE("topology: the batch host without a port is the first node, short or with its domain", "[unit]") {
  for (char const* const batch_host : {"node1", "node1.cluster.local", "NODE1"}) {
    CAPTURE(batch_host);
    std::vector<std::string> const words{"--nproc_per_node=4", "--nnodes=2", "--rdzv_id=3", "--rdzv_backend=c10d",
                                         std::string("--rdzv_endpoint=") + batch_host};
    JobTopology const second = made(words, task());
    CHECK(second.run_id == "3");
    CHECK(second.meeting == Meeting{Host::other, batch_host, job_ports, false});
    CHECK(made(words, task("task 0 on node1")).meeting.host == Host::me);
  }
  CHECK(made({"--rdzv_endpoint="}, task()).meeting.address == "node1");
}

TEST_CASE("topology: an endpoint with its domain may name a node that has one, too", "[unit]") {
  Environment environment = task();
  environment["SLURM_STEP_NODELIST"] = "node[1-2].cluster.local";
  environment["SLURMD_NODENAME"] = "node2.cluster.local";

  CHECK(made({"--rdzv-endpoint", "node1"}, environment).meeting.host == Host::other);
  CHECK(made({"--rdzv-endpoint", "node2.cluster.local"}, environment).meeting.host == Host::me);
  CHECK_FALSE(attempt({"--rdzv-endpoint", "node1.elsewhere"}, environment).has_value());
}

TEST_CASE("topology: an endpoint on no node of the step says: drop the flag", "[unit]") {
  CHECK(mistake({"--rdzv-endpoint", "login:29400"}, task()) ==
        "--rdzv-endpoint login is on no node of the Slurm step (node1 to node2); drop the flag, Slurm says where to "
        "meet");
  CHECK(mistake({"--rdzv-endpoint", "localhost:29400"}, task()) ==
        "--rdzv-endpoint localhost is this host only, but the Slurm step has 2 nodes; drop the flag");
  CHECK(mistake({"--rdzv-endpoint", "node1:0"}, task()).find("port 0 is for one node only") != std::string::npos);
}

TEST_CASE("topology: torchrun's static flags work under Slurm when they agree with it", "[unit]") {
  auto const topology = made({"--master-addr", "node1", "--master-port", "29500", "--node-rank", "1"}, task());

  CHECK(topology.meeting == Meeting{Host::other, "node1", job_ports, false});
  CHECK(topology.master_addr == "node1");
  CHECK(topology.master_port == 29500);
  CHECK(mistake({"--node-rank", "0"}, task()) ==
        "--node-rank 0 contradicts SLURM_NODEID=1; drop --node-rank, Slurm numbers the nodes");
}

TEST_CASE("topology: with c10d a node rank that Slurm does not know is ignored, as by torchrun, and named", "[unit]") {
  std::vector<std::string> const recipe{"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "node1:29500"};
  auto words = recipe;
  words.insert(words.end(), {"--node-rank", "0"});

  auto const topology = made(words, task());

  CHECK(topology.node_index == 1U);
  CHECK(topology.notes == std::vector<std::string>{"--node-rank 0 is ignored: SLURM_NODEID is 1, and Slurm numbers the "
                                                   "nodes; drop --node-rank"});
  CHECK(made(recipe, task()).notes.empty());
}

TEST_CASE("topology: the step names the job of several of its agents, whatever --rdzv-id says", "[unit]") {
  CHECK(made({"--rdzv-id", "5"}, task()).step == "3.0");
  CHECK(made({}, task()).step == "3.0");
  CHECK(made({"--rdzv-id", "5"}, lone_task()).step.empty());
  CHECK(made({"--nnodes", "2", "--rdzv-endpoint", "other:29400"}, lone_task()).step.empty());
}

TEST_CASE("topology: a step of one task is standalone, under Slurm's name", "[unit]") {
  auto const topology = made({}, lone_task());

  CHECK(topology.source == Source::standalone);
  CHECK(topology.run_id == "3.0");
  CHECK(topology.meeting.loopback_only);
  CHECK(made({"--rdzv-endpoint", "localhost:0"}, lone_task()).meeting == Meeting{Host::me, "localhost", {0}, true});
}

TEST_CASE("topology: agents of separate steps may meet at an endpoint", "[unit]") {
  auto const topology = made({"--nnodes", "2", "--rdzv-endpoint", "other:29400"}, lone_task());

  CHECK(topology.source == Source::flags);
  CHECK(topology.run_id == "none");
  CHECK(topology.meeting == Meeting{Host::find_out, "other", {29400}, false});
}

TEST_CASE("topology: below a worker every set of options is a job of this node, as outside Slurm", "[unit]") {
  auto worker = recorded_environment("env-gpus-per-task-4tasks.txt", "task 6 on node2");
  worker["CXXRUN_RUN_ID"] = "mine";
  worker["CXXRUN_JOB_STEP"] = worker["SLURM_JOB_ID"] + "." + worker["SLURM_STEP_ID"];

  for (auto const& words : std::vector<std::vector<std::string>>{
           {}, {"--standalone"}, {"--nnodes", "1"}, {"--rdzv-endpoint", "localhost:0"}, {"--rdzv-id", "5"}}) {
    auto const topology = made(words, worker);
    CHECK(topology.max_nodes == 1);
    CHECK(topology.meeting.host == Host::me);
    CHECK_FALSE(topology.task.has_value());
    CHECK_FALSE(topology.expected_nodes.has_value());
    CHECK(topology.notes.empty());
    CHECK(topology.remarks.size() == 1);
  }
}

TEST_CASE("topology: --standalone in a step of several nodes runs, and says what it does", "[unit]") {
  auto const topology = made({"--standalone"}, task());

  CHECK(topology.run_id == "random");
  CHECK(topology.max_nodes == 1);
  CHECK(topology.notes.size() == 1);
  CHECK(mistake({"--standalone", "--nnodes", "2"}) ==
        "--standalone is for one node but --nnodes 2 asks for more; drop one of them");
}

TEST_CASE("topology: a half-set Slurm environment stops everything but --standalone", "[unit]") {
  Environment broken = task();
  broken.erase("SLURM_NODEID");

  CHECK(mistake({}, broken).find("SLURM_NODEID is not") != std::string::npos);
  CHECK(made({"--standalone"}, broken).source == Source::standalone);
}

TEST_CASE("topology: an endpoint that others can call, without --nnodes, is said to be for one node", "[unit]") {
  auto const notes = [](std::vector<std::string> const& words) { return made(words).notes.size(); };
  std::string const line = made({"--rdzv-endpoint", "head:5"}).notes.front();

  CHECK(line == "a job of this node alone, as --nnodes is not given; with several nodes: --nnodes N");
  CHECK(notes({"--rdzv-endpoint", "10.9.9.9:5"}) == 1);
  CHECK(notes({"--rdzv-endpoint", "localhost:5"}) == 0);
  CHECK(notes({"--nnodes", "1", "--rdzv-endpoint", "head:5"}) == 0);
  CHECK(notes({"--rdzv-id", "x", "--rdzv-endpoint", "head:5"}) == 0);  // of cxxrun-rendezvous, maybe
  CHECK(mistake({"--node-rank", "1"}) == "--node-rank 1 is not below --nnodes 1; ranks start at 0");
  CHECK(made({"--node-rank", "0"}).source == Source::standalone);
}

TEST_CASE("topology: an endpoint outside Slurm", "[unit]") {
  auto const at = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--nnodes", "1:2", "--rdzv-endpoint", "head"});
    return made(words).meeting;
  };

  CHECK(at({}) == Meeting{Host::find_out, "head", {29400}, false});
  CHECK(at({"--node-rank", "0"}).host == Host::me);
  CHECK(at({"--node-rank", "1"}).host == Host::other);
  CHECK(at({"--rdzv-conf", "is_host=true"}).host == Host::me);
  CHECK(at({"--node-rank", "0", "--rdzv-conf", "is_host=no"}).host == Host::other);
  CHECK(made({"--rdzv-endpoint", "head:5"}).meeting ==
        Meeting{Host::me, "head", {5, 0}, false});  // it needs no meeting
  CHECK(made({"--rdzv-endpoint", "[::1]:0"}).meeting == Meeting{Host::me, "::1", {0}, true});
  CHECK(mistake({"--nnodes", "2", "--rdzv-endpoint", "head:0"}).find("port 0 is for one node only") !=
        std::string::npos);
}

TEST_CASE("topology: static flags meet on derived ports and keep the master port for the store", "[unit]") {
  std::vector<std::string> const words{"--nnodes", "2", "--master-addr", "head", "--master-port", "29500"};
  auto with_rank = words;
  with_rank.insert(with_rank.end(), {"--node-rank", "1"});
  auto const topology = made(with_rank);

  CHECK(topology.source == Source::flags);
  CHECK(topology.meeting == Meeting{Host::other, "head", cxxrun::port_sequence("none:29500", 16), false});
  CHECK_FALSE(may_lead_to(topology.meeting_file, {std::to_string(topology.meeting.ports[0]), ""}, {}));
  CHECK(topology.meeting_file.starts_with("meeting." + std::to_string(topology.meeting.ports[0])));
  CHECK(made({"--rdzv-endpoint", "head:29500", "--nnodes", "2"}).meeting_file.empty());
  CHECK(topology.master_addr == "head");
  CHECK(topology.master_port == 29500);
  CHECK(mistake(words).starts_with("--master-addr with --nnodes 2 needs --node-rank on every node"));
  CHECK(mistake({"--nnodes", "2"}).starts_with("--nnodes 2: where do the nodes meet?"));
  CHECK(mistake({"--nnodes", "2", "--node-rank", "2", "--master-addr", "h"}).starts_with("--node-rank 2 is not below"));
}

TEST_CASE("topology: the store's port is never tried for the rendezvous", "[unit]") {
  std::string const first = std::to_string(job_ports.front());
  auto const topology = made({"--master-port", first}, task());

  CHECK(topology.master_port == job_ports.front());
  CHECK(topology.meeting.ports == std::vector<std::uint16_t>(job_ports.begin() + 1, job_ports.end()));

  auto const both = made({"--nnodes", "2", "--rdzv-endpoint", "h:29500", "--master-port", "29500"});
  CHECK(both.master_port == 0);
  CHECK(both.notes.size() == 1);
}

TEST_CASE("topology: one node with a master port keeps it and stays on loopback", "[unit]") {
  auto const topology = made({"--master-port", "29501"});

  CHECK(topology.master_port == 29501);
  CHECK(topology.meeting == Meeting{Host::me, "127.0.0.1", {0}, true});
  CHECK_FALSE(made({"--master-addr", "node1"}).meeting.loopback_only);
  CHECK(made({"--local-addr", "10.0.0.7"}).master_addr == "10.0.0.7");
}

namespace {

Discovery found() {
  Discovery discovery;
  discovery.job = "3";
  discovery.addresses = {"node1"};
  discovery.port = 20500;
  discovery.nonce = "abc";
  discovery.path = "/d/lab-3";
  return discovery;
}

cxxrun::Result<JobTopology> with_discovery(std::vector<std::string> words, Environment const& environment) {
  words.emplace_back("program");
  return make_topology(std::get<Options>(parse_options(words, {})), environment, "random", found());
}

}  // namespace

TEST_CASE("topology: a step of a job with a rendezvous of its own meets there, else as ever", "[unit]") {
  JobTopology expected = made({}, task());
  expected.discovered = found();
  CHECK(*with_discovery({}, task()) == expected);

  auto const alone = with_discovery({}, lone_task());
  REQUIRE(alone);
  CHECK(alone->source == Source::slurm);
  CHECK(alone->discovered.has_value());
  CHECK(with_discovery({"--rdzv-endpoint", "node1:20500"}, task())->discovered.has_value());
  CHECK(with_discovery({"--rdzv-endpoint", "node1"}, task())->discovered.has_value());
  CHECK_FALSE(with_discovery({"--rdzv-endpoint", "node1:29400"}, task())->discovered.has_value());
  CHECK_FALSE(with_discovery({"--standalone"}, task())->discovered.has_value());
  CHECK_FALSE(with_discovery({}, {})->discovered.has_value());
}

TEST_CASE("topology: --join is one more node without a place of its own, whatever the step is that it runs in",
          "[unit]") {
  Environment half = task();
  half.erase("SLURM_NODEID");
  for (auto const& environment : {Environment{}, task(), lone_task(), half}) {
    auto const joined = with_discovery({"--join", "3"}, environment);
    REQUIRE(joined);
    CHECK(joined->source == Source::join);
    CHECK(joined->discovered == found());
    CHECK_FALSE(joined->node_index.has_value());
    CHECK_FALSE(joined->expected_nodes.has_value());
    CHECK(joined->meeting.host == Host::other);
  }
}

TEST_CASE("topology: a step with --rdzv-id may meet outside itself, at a host and port", "[unit]") {
  auto const outside = made({"--rdzv-id", "x", "--rdzv-endpoint", "login:29400"}, task());
  CHECK(outside.source == Source::flags);
  CHECK(outside.run_id == "x");
  CHECK(outside.min_nodes == 2);
  CHECK(outside.max_nodes == 2);
  CHECK(outside.meeting == Meeting{Host::find_out, "login", {29400}, false});
  CHECK_FALSE(outside.node_index.has_value());
  CHECK(made({"--rdzv-id", "x", "--nnodes", "4:8", "--rdzv-endpoint", "login:29400"}, task()).min_nodes == 4);
  CHECK(mistake({"--rdzv-endpoint", "login:29400"}, task()).find("on no node of the Slurm step") != std::string::npos);
  CHECK(mistake({"--rdzv-id", "x", "--rdzv-endpoint", "login"}, task()).find("on no node") != std::string::npos);
}

TEST_CASE("topology: an address that leads every node to itself is refused for several nodes", "[unit]") {
  for (std::string const given : {"localhost", "127.0.0.1", "::1", "0.0.0.0", "::"}) {
    CAPTURE(given);
    std::vector<std::string> const local{"--local-addr", given};
    CHECK(mistake(local, task()).starts_with("--local-addr " + given + " leads every node to itself"));
    CHECK(mistake({"--nnodes", "2", "--rdzv-endpoint", "head", "--local-addr", given})
              .starts_with("--local-addr " + given + " leads every node to itself"));
    CHECK(made(local).master_addr == given);
    CHECK(made(local, lone_task()).max_nodes == 1);
    CHECK(made({"--nnodes", "2", "--rdzv-endpoint", "localhost", "--local-addr", given}).max_nodes == 2);
  }
  CHECK(made({"--local-addr", "10.0.0.7"}, task()).master_addr == "10.0.0.7");

  CHECK(mistake({"--nnodes", "2", "--rdzv-endpoint", "0.0.0.0:29400"}) ==
        "--rdzv-endpoint 0.0.0.0 leads every node to itself; give all nodes the name or address of one of them");
  CHECK(mistake({"--nnodes", "1:2", "--rdzv-endpoint", "[::]:29400"}).starts_with("--rdzv-endpoint :: leads every"));
  CHECK(made({"--rdzv-endpoint", "0.0.0.0:29400"}).max_nodes == 1);
}

TEST_CASE("topology: what may run below another launcher's process says that it may be one of several", "[unit]") {
  Environment below_torchrun = task();
  below_torchrun["TORCHELASTIC_RUN_ID"] = "none";
  CHECK(made({}, below_torchrun).notes.empty());  // a script may export it
  below_torchrun["LOCAL_RANK"] = "0";
  CHECK(made({}, below_torchrun).notes ==
        std::vector<std::string>{"this may run below a worker of torchrun (TORCHELASTIC_RUN_ID), where it waits for "
                                 "the other tasks of the step: give --standalone for a job of its own"});
  CHECK(made({}, {{"TORCHELASTIC_RUN_ID", "none"}, {"LOCAL_RANK", "0"}}).notes.empty());
  below_torchrun["CXXRUN_RUN_ID"] = "mine";
  CHECK(made({}, below_torchrun).notes.empty());  // srun in a worker of cxxrun

  Environment const by_mpirun{{"OMPI_COMM_WORLD_SIZE", "4"}};
  CHECK(made({}, by_mpirun).notes ==
        std::vector<std::string>{
            "mpirun has started 4 of these, and each is a job of its own: start cxxrun with srun, or once on each node "
            "with --nnodes N --rdzv-endpoint HOST:29400; --standalone if that is meant"});
  CHECK(made({}, {{"OMPI_COMM_WORLD_SIZE", "1"}}).notes.empty());
  CHECK(made({"--standalone"}, by_mpirun).notes.empty());
  CHECK(made({"--nnodes", "4", "--rdzv-endpoint", "head"}, by_mpirun).notes.empty());
  CHECK(made({}, {{"OMPI_COMM_WORLD_SIZE", "4"}, {"CXXRUN_RUN_ID", "mine"}}).notes.empty());  // a worker of cxxrun
}

TEST_CASE("topology: only a step of elastic size says where it can be found", "[unit]") {
  CHECK(made({}, task()).announce_as.empty());
  CHECK(made({"--nnodes", "1:2"}, task()).announce_as == "lab-3.0");
  CHECK(made({"--nnodes", "1:4"}, task()).announce_as == "lab-3.0");
  CHECK(made({"--nnodes", "1:2", "--rdzv-endpoint", "h"}).announce_as.empty());
}
