#include "launcher/doctor/meeting.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::launcher::NodeRange;
using cxxrun::launcher::Options;
using cxxrun::launcher::SlurmStep;

TEST_CASE("meeting: the nodes of a step meet at its first, at the port that flags name", "[unit]") {
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
  options.rdzv_endpoint = cxxrun::Endpoint{"c", 4711};
  auto const elsewhere = meeting_of(options, step).value().value();
  CHECK(elsewhere.first == "a");
  CHECK(elsewhere.ports == std::vector<std::uint16_t>{4711});  // where the usual ones are taken
}

TEST_CASE("meeting: where a step is given an address no node needs a name", "[unit]") {
  SlurmStep step;
  step.node_names = {"a", "b", "c"};
  step.node_index = 1;
  Options options;
  options.master_addr = "10.0.0.1";
  for (int i = 0; i < 2; ++i) {
    auto const found = meeting_of(options, step).value().value();
    CHECK((found.first == "10.0.0.1" && found.by_address && found.names == step.node_names));
    CHECK(names_to_know(found) == std::vector<std::string>{"10.0.0.1"});
    CHECK(name_for_others(found, [] { return std::string("10.0.0.2"); }) == "10.0.0.2");
    options.rdzv_endpoint = cxxrun::Endpoint{"10.0.0.1", {}};
  }
  Options local;
  local.local_addr = "10.0.0.7";
  auto const found = meeting_of(local, step).value().value();
  CHECK(names_to_know(found) == std::vector<std::string>{"a"});
  CHECK(name_for_others(found, [] { return std::string(); }) == "10.0.0.7");
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

TEST_CASE("meeting: a node asks for the names of the first node and of those that it calls, however many there are",
          "[unit]") {
  Meeting meeting{"7.0", "n0", {4711}, {}, 0, 2};
  CHECK(names_to_know(meeting) == std::vector<std::string>{"n0"});  // flags tell no other one
  for (std::uint32_t i = 0; i < 512; ++i) {
    meeting.names.push_back("n" + std::to_string(i));
  }
  meeting.nodes = 512;
  for (meeting.index = 0; meeting.index < 512; ++meeting.index) {
    auto const names = names_to_know(meeting);
    CHECK((names.front() == "n0" && names.size() <= 5));
    for (auto const peer : peers_in(meeting)) {
      CHECK(std::find(names.begin(), names.end(), meeting.names[peer]) != names.end());
    }
  }
}

TEST_CASE("meeting: the first node is called as all have been told to, others by the address that leads to it",
          "[unit]") {
  auto const towards_first = [] { return std::string("127.0.0.1"); };  // Debian's line for the own name
  Meeting meeting{"none", "first", {4711}, {}, 0, 2};
  CHECK(name_for_others(meeting, towards_first) == "first");
  meeting.local_addr = "10.0.0.1";
  CHECK(name_for_others(meeting, towards_first) == "10.0.0.1");
  meeting.index = 1;
  meeting.local_addr = "";
  CHECK(name_for_others(meeting, [] { return std::string("10.0.0.2"); }) == "10.0.0.2");
  meeting.names = {"a", "b"};
  CHECK(name_for_others(meeting, towards_first) == "b");
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
