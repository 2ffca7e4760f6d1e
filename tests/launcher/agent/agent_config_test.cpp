#include "launcher/agent/agent_config.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

TEST_CASE("F21: the pair rule holds for two nodes to which nobody can come, and not beside a fence", "[unit]") {
  JobTopology two;
  two.max_nodes = 2;
  two.expected_nodes = 2;
  CHECK(agent_policy({}, two, {}).pair);
  Options fenced;
  fenced.fence_dir = "/shared";
  CHECK_FALSE(agent_policy(fenced, two, {}).pair);
  auto joined = two;
  joined.source = JobTopology::Source::join;
  CHECK_FALSE(agent_policy({}, joined, {}).pair);
  two.expected_nodes = 3;
  CHECK_FALSE(agent_policy({}, two, {}).pair);
  two.expected_nodes.reset();
  two.max_nodes = 3;
  CHECK_FALSE(agent_policy({}, two, {}).pair);
}

TEST_CASE("policies: a store's port is held until other nodes' leases are over, or their calls and grace", "[unit]") {
  using std::chrono_literals::operator""s;
  JobTopology two;
  two.max_nodes = 2;
  Options options;
  options.restart_timeout = 7s;
  auto policy = agent_policy(options, two);
  auto const hold = [&](JobTopology const& topology, Millis heartbeat_timeout) {
    adopt_heartbeats(policy, topology, heartbeat_timeout);
    return hold_of_ports(policy, topology);
  };
  CHECK(hold(two, 5s) == 5s);
  CHECK(hold(two, 60s) == 60s);
  CHECK(hold(two, 0s) == 10s);
  JobTopology one;
  one.max_nodes = 1;
  CHECK(hold(one, 5s) == 0s);
  one.source = JobTopology::Source::join;
  CHECK(hold(one, 5s) == 5s);
  policy.tie = rendezvous::Tie::none;
  CHECK(hold(two, 5s) == 10s);
}

TEST_CASE("policies: ports that strangers cannot compute are called first, and not where this agent hosts", "[unit]") {
  AgentConfig config;
  config.topology.max_nodes = 2;
  config.topology.meeting.ports = {3, 4};
  config.topology.meeting.hidden = {1, 2};
  CHECK(call_plan(config, std::nullopt).ports == std::vector<std::uint16_t>{1, 2, 3, 4});
  CHECK(call_plan(config, std::uint16_t{9}).ports == std::vector<std::uint16_t>{9});
}

TEST_CASE("policies: who asks for a smaller world and cannot have one is told why, and what to type", "[unit]") {
  JobTopology topology;
  topology.min_nodes = 1;
  topology.max_nodes = 4;
  CHECK(why_no_shrink({}, topology).empty());
  Options checked;
  checked.health_check = "true";
  CHECK(why_no_shrink(checked, topology).find("--health-check") != std::string::npos);
  topology.min_nodes = 4;
  CHECK(why_no_shrink({}, topology).find("with --nnodes 4: ") != std::string::npos);
  CHECK(why_no_shrink({}, topology).find("use --nnodes MIN:4") != std::string::npos);
  topology.source = JobTopology::Source::join;  // the job's own nodes know
  CHECK(why_no_shrink({}, topology).empty());
  JobTopology const one;
  CHECK(why_no_shrink({}, one).find("in a job of one node") != std::string::npos);
}
