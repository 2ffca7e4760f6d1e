#include "launcher/doctor/meeting.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::launcher::NodeRange;
using cxxrun::launcher::Options;
using cxxrun::launcher::SlurmStep;

TEST_CASE("meeting: the nodes of a step meet at its first, whatever flags say", "[unit]") {
  SlurmStep step;
  step.run_id = "7.0";
  step.node_names = {"a", "b"};
  step.node_index = 1;
  Options options;
  options.nnodes = NodeRange{4, 4};
  auto const found = meeting_of(options, step).value().value();
  CHECK(found.first == "a");
  CHECK(found.names == step.node_names);
  CHECK((found.index == 1 && found.nodes == 2 && found.ports.size() > 1));
}

TEST_CASE("meeting: flags say who meets where", "[unit]") {
  Options options;
  options.nnodes = NodeRange{2, 3};
  options.node_rank = 2;
  options.rdzv_endpoint = cxxrun::Endpoint{"first", 4711};
  CHECK(meeting_of(options, {}).value() == Meeting{"none", "first", {4711}, {}, 2, 3});
  options.rdzv_endpoint->port = {};
  options.rdzv_id = "mine";
  CHECK(meeting_of(options, {}).value() == Meeting{"mine", "first", {29400}, {}, 2, 3});
  options.rdzv_endpoint = {};
  options.master_addr = "other";
  CHECK(meeting_of(options, {}).value()->first == "other");
}

TEST_CASE("meeting: one node is alone, and what is missing for several is named", "[unit]") {
  Options options;
  CHECK_FALSE(meeting_of(options, {}).value());
  CHECK_FALSE(meeting_of(options, SlurmStep{"7.0", {"a"}}).value());
  options.nnodes = NodeRange{2, 2};
  CHECK(meeting_of(options, {}).error().context.find("--rdzv-endpoint HOST") != std::string::npos);
  options.rdzv_endpoint = cxxrun::Endpoint{"first", {}};
  CHECK(meeting_of(options, {}).error().context.ends_with("add --node-rank, from 0 on the first node to 1"));
  options.node_rank = 2;
  CHECK_FALSE(meeting_of(options, {}));
  options.standalone = true;
  CHECK_FALSE(meeting_of(options, {}).value());
}
