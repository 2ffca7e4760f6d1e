#include "launcher/agent/policies.hpp"

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
