#include "launcher/doctor/step_findings.hpp"

#include <algorithm>
#include <set>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::Errc;
using cxxrun::fail;

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
  nodes[2].came = false;
  CHECK(about(nodes, "nodes").grade == Grade::failure);
  CHECK(about(nodes, "nodes").found == "nothing came from node3");
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
  CHECK(judge_no_table(fail(Errc::timeout, "not reached")).remedy.starts_with("see whether that node runs"));
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
  CHECK(about(nodes, "shared").found == "not known: the first node cannot write in its working directory");
  nodes[0].facts.erase("fs.shared");
  CHECK(about(nodes, "shared").found == "not known: the first node has no answer from its working directory");
}

TEST_CASE("step: of nodes that never came nothing is claimed, and they are named", "[unit]") {
  auto nodes = sound(4);
  nodes[2] = {"node-rank-2", false, {}, {}};
  nodes[3] = {"node-rank-3", false, {}, {}};
  CHECK(about(nodes, "nodes").found == "nothing came from node-rank-[2-3]");
  CHECK(about(nodes, "shared").found ==
        "the working directory is one and the same on all nodes that came, with its locks");
  CHECK(about(nodes, "differences").found.ends_with("Linux and CPUs of those that came"));
}

TEST_CASE("step: locks that a node does not see of the first one are a warning", "[unit]") {
  auto nodes = sound(3);
  CHECK(about(nodes, "shared").found == "the working directory is one and the same on all nodes, with its locks");
  nodes[2].facts["fs.lock_seen"] = "0";
  CHECK(about(nodes, "shared").grade == Grade::warning);
  CHECK(about(nodes, "shared").found == "node3 can lock a file that node1 has locked");
  nodes[0].facts["fs.locked"] = "0";  // the first node's own line tells that it has no locks
  CHECK(about(nodes, "shared").found == "the working directory is one and the same on all nodes");
  nodes[1].facts.erase("fs.shared");
  CHECK(about(nodes, "shared").found == "not known of node2, where it did not answer");
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
