#include "launcher/doctor/step.hpp"

#include <algorithm>
#include <set>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::Errc;
using cxxrun::fail;
using cxxrun::launcher::NodeRange;
using cxxrun::launcher::Options;
using cxxrun::launcher::SlurmStep;

namespace {

/// Nodes that all reach each other in 100 µs, with equal clocks and the same of everything.
std::vector<StepNode> sound(std::uint32_t count) {
  std::vector<StepNode> nodes;
  for (std::uint32_t i = 0; i < count; ++i) {
    StepNode node{"node" + std::to_string(i + 1), true, {{"torch.version", "2.4.0"}, {"fs.shared", "1"}}, {}};
    node.facts[i == 0 ? "fs.locked" : "fs.lock_seen"] = "1";
    for (auto const peer : peers_of(i, count, 7)) {
      node.calls.push_back({peer, "", 100, 0});
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Finding about(std::vector<StepNode> const& nodes, std::string const& what) {
  auto const all = judge_step(nodes);
  auto const found = std::find_if(all.begin(), all.end(), [&](Finding const& each) { return each.about == what; });
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

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
  CHECK(meeting_of(options, {}).value() == StepMeeting{"none", "first", {4711}, {}, 2, 3});
  options.rdzv_endpoint->port = {};
  options.rdzv_id = "mine";
  CHECK(meeting_of(options, {}).value() == StepMeeting{"mine", "first", {29400}, {}, 2, 3});
  options.rdzv_endpoint = {};
  options.master_addr = "other";
  CHECK(meeting_of(options, {}).value()->first == "other");
}

TEST_CASE("meeting: a node asks for the names of the first node and of those that it calls, however many there are",
          "[unit]") {
  StepMeeting meeting{"7.0", "n0", {4711}, {}, 0, 2};
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
  StepMeeting meeting{"none", "first", {4711}, {}, 0, 2};
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

TEST_CASE("step: up to 16 nodes each calls all others, of more the next and some at random; four call each at most",
          "[unit]") {
  for (std::uint32_t const nodes : {2U, 3U, 16U, 17U, 18U, 64U, 512U, 10'000U}) {
    std::vector<int> called(nodes);
    for (std::uint32_t i = 0; i < nodes; ++i) {
      auto const peers = peers_of(i, nodes, 99);
      std::set<std::uint32_t> const distinct(peers.begin(), peers.end());
      REQUIRE(distinct.size() == peers.size());
      REQUIRE_FALSE(distinct.contains(i));
      REQUIRE((nodes <= 16 ? peers.size() == nodes - 1 : peers.size() >= 2 - (nodes == 2) && peers.size() <= 4));
      REQUIRE(distinct.contains((i + 1) % nodes));  // the ring
      for (auto const peer : peers) {
        ++called.at(peer);
      }
    }
    auto const [least, most] = std::minmax_element(called.begin(), called.end());
    CHECK(*least >= 1);
    CHECK(*most <= (nodes <= 16 ? static_cast<int>(nodes) - 1 : 4));
  }
}

TEST_CASE("step: of many nodes the pairs are others each time, with other distances, and the same on all nodes",
          "[unit]") {
  std::set<std::uint32_t> distances;
  int same = 0;
  for (std::uint32_t i = 0; i < 512; ++i) {
    CHECK(peers_of(i, 512, 1) == peers_of(i, 512, 1));
    same += peers_of(i, 512, 1) == peers_of(i, 512, 2) ? 1 : 0;
    for (auto const peer : peers_of(i, 512, 1)) {
      distances.insert((peer + 512 - i) % 512);
    }
  }
  CHECK(same < 8);
  CHECK(distances.size() > 256);  // a fixed stride has four
}

TEST_CASE("step: what anybody could have written is said", "[unit]") {
  auto nodes = sound(2);
  CHECK(about(nodes, "MUNGE").grade == Grade::fine);
  nodes[0].facts["munge.error"] = "libmunge.so.2 is not installed here";
  CHECK(about(nodes, "MUNGE").grade == Grade::note);
}

TEST_CASE("step: on sound nodes each line is fine", "[unit]") {
  for (auto const& each : judge_step(sound(4))) {
    INFO(each.about << ": " << each.found);
    CHECK(each.grade == Grade::fine);
  }
  CHECK(about(sound(4), "calls").found == "12 of 12 came through, median 0.100 ms, longest 0.100 ms (node4 to node3)");
}

TEST_CASE("step: who did not come, and who cannot call whom, is named", "[unit]") {
  auto nodes = sound(4);
  nodes[2].reported = false;
  CHECK(about(nodes, "nodes").grade == Grade::failure);
  CHECK(about(nodes, "nodes").found == "no report from node3");
  nodes[0].calls[1].error = "Connection timed out";
  CHECK(about(nodes, "calls").grade == Grade::failure);
  CHECK(about(nodes, "calls").found == "node1 to node3 (Connection timed out)");
  for (auto& node : nodes) {
    for (auto& call : node.calls) {
      call.error = "no";
    }
  }
  CHECK(about(nodes, "calls").found.ends_with("node2 to node3 (no) and 7 more"));
}

TEST_CASE("step: a first node that is not trusted has another remedy than one that is not reached", "[unit]") {
  CHECK(judge_no_table(fail(Errc::in_use, "port 80")).remedy.starts_with("give all nodes another port"));
  CHECK(judge_no_table(fail(Errc::permission, "not trusted"))
            .remedy.starts_with("a job needs one of these on both: munged with one key"));
  CHECK(judge_no_table(fail(Errc::timeout, "not reached")).remedy.starts_with("check that cxxrun --doctor runs"));
}

TEST_CASE("step: a slow pair and clocks that are apart are warnings", "[unit]") {
  auto nodes = sound(3);
  nodes[1].calls[0].round_trip = 6000;
  CHECK(about(nodes, "calls").grade == Grade::warning);
  CHECK(about(nodes, "calls").found.find("longest 6.000 ms (node2 to node1)") != std::string::npos);
  nodes[0].calls[1].ahead = -2'000'000;
  CHECK(about(nodes, "clocks").grade == Grade::warning);
  CHECK(about(nodes, "clocks").found == "at most 2000 ms apart: node3 is behind node1");
  nodes[0].calls[1].ahead = 400'000'000;
  CHECK(about(nodes, "clocks").grade == Grade::failure);
}

TEST_CASE("step: what differs between nodes is named with the nodes", "[unit]") {
  auto nodes = sound(4);
  nodes[3].facts["torch.version"] = "2.3.0";
  nodes[1].facts["fs.shared"] = "0";
  CHECK(about(nodes, "differences").found == "torch: 2.3.0 on node4, 2.4.0 on node[1-3]");
  CHECK(about(nodes, "differences").grade == Grade::warning);
  CHECK(about(nodes, "shared").found == "the working directory of node2 is not that of node1");
  nodes[0].facts["fs.shared"] = "0";
  CHECK(about(nodes, "shared").found == "not known: the working directory of the first node cannot be written");
  nodes[0].facts.erase("fs.shared");
  CHECK(about(nodes, "shared").found == "not known: the working directory of the first node did not answer");
}

TEST_CASE("step: of nodes that never came nothing is claimed, and they are named", "[unit]") {
  auto nodes = sound(4);
  nodes[2] = {"node-rank-2", false, {}, {}};
  nodes[3] = {"node-rank-3", false, {}, {}};
  CHECK(about(nodes, "nodes").found == "no report from node-rank-[2-3]");
  CHECK(about(nodes, "shared").found == "all nodes that reported share the working directory and its locks");
  CHECK(about(nodes, "differences").found.ends_with("Linux and CPUs of those that reported"));
}

TEST_CASE("step: locks that a node does not see of the first one are a warning", "[unit]") {
  auto nodes = sound(3);
  CHECK(about(nodes, "shared").found == "all nodes share the working directory and its locks");
  nodes[2].facts["fs.lock_seen"] = "0";
  CHECK(about(nodes, "shared").grade == Grade::warning);
  CHECK(about(nodes, "shared").found == "node3 can lock a file that node1 has locked");
  nodes[0].facts["fs.locked"] = "0";  // the first node's own finding says that it has no locks
  CHECK(about(nodes, "shared").found == "all nodes share the working directory");
  nodes[1].facts.erase("fs.shared");
  CHECK(about(nodes, "shared").found == "not known for node2, whose working directory did not answer");
}

TEST_CASE("step: calls come back as they were written, and garbage is left out", "[unit]") {
  std::vector<Call> const calls = {{1, "", 120, -44}, {3, "Connection refused", 0, 0}};
  CHECK(read_calls(write_calls(calls)) == calls);
  CHECK(read_calls({{"call.x", "1 2"}, {"call.1", "1"}, {"call.2", "a b"}, {"call.-3", "1 2"}, {"calls", "1 2"}})
            .empty());
  auto nodes = sound(2);
  nodes[0].calls.push_back({99, "", 1, 1});  // of no node
  CHECK(about(nodes, "calls").grade == Grade::fine);
}
