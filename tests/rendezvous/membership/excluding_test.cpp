// Nodes that a person drains: which are refused, and what becomes of the others.
#include "tests/support/membership_job.hpp"

namespace cxxrun::test {
namespace {

Event drain(std::string name, std::uint64_t number = 1) {
  return Wanted{Wanted::What::drain, number, "uid 7 on n0", std::move(name)};
}
std::string const kWhy = "drained by uid 7 on n0";

/// Agents 1 (which hosts, on n0) to 3, without votes, of which `min` are enough and `max` have seats.
struct Three : Job {
  explicit Three(std::uint32_t min = 2, std::uint32_t max = 3) : Job(Phase::forming) {
    policy.min_nodes = min;
    policy.max_nodes = max;
    join(2);
    join(3);
    go();
  }
  void stop(std::vector<AgentId> const& agents) {
    for (AgentId const agent : agents) {
      feed(Said{agent, Stopped{state.number, {}, {}}});
    }
  }
  [[nodiscard]] std::string refusal(std::string const& name, std::uint64_t number = 1) const {
    return objection(state, std::get<Wanted>(drain(name, number)), policy);
  }
};

using Agents = std::vector<AgentId>;

}  // namespace

TEST_CASE("excluding: a drained node leaves for good, and the others go on without a restart") {
  Three job;
  job.feed(drain("n1"));
  REQUIRE(job.stops(StopKind::resize));
  CHECK(job.state.group.stop.why == "n1 is " + kWhy);
  auto const& told = std::get<story::Wanted>(job.last.story.front().what);
  CHECK((told.verb == "drain" && told.host == "n1" && told.by == "uid 7 on n0"));
  CHECK(*job.told<Stop>(2) == Stop{1, StopKind::drain, kWhy});
  CHECK(job.told<Stop>(3)->kind == StopKind::resize);
  job.stop({1, 2, 3});
  CHECK(job.told<Finished>(2) == nullptr);  // it waits for the end of the job
  job.go();
  CHECK(job.members() == Agents{1, 3});
  CHECK(job.state.restarts.consumed == 0);
  CHECK(job.state.roster.excluded.contains(2));

  job.feed(Lost{2, "end of file"});  // that changes nothing
  CHECK(job.state.phase == Phase::running);
  job.join(4, false, 1);
  REQUIRE(job.told<Refused>(4) != nullptr);
  CHECK(job.told<Refused>(4)->why == "this node was excluded: n1: " + kWhy);
  job.feed(Said{1, Succeeded{job.state.number}});
  job.feed(Said{3, Succeeded{job.state.number}});
  REQUIRE(job.ended(End::success));
  CHECK(job.state.verdict->excluded == std::vector<std::string>{"n1: " + kWhy});
}

TEST_CASE("excluding: a drained agent leaves with the code of the job") {
  Three job;
  job.feed(drain("n1"));
  job.stop({1, 2, 3});
  job.go();
  job.feed(Said{3, Succeeded{job.state.number}});
  job.feed(Said{1, Succeeded{job.state.number}});
  REQUIRE(job.told<Finished>(2) != nullptr);
  CHECK(job.told<Finished>(2)->exit_code == 0);
}

TEST_CASE("excluding: a spare takes the seat of a drained node") {
  Three job(2, 2);
  REQUIRE(job.members() == Agents{1, 2});
  job.feed(drain("n1.cluster"));
  REQUIRE(job.stops(StopKind::resize));
  job.stop({1, 2});
  job.go();
  CHECK(job.members() == Agents{1, 3});
}

TEST_CASE("excluding: a node that is lost before it has stopped is drained all the same") {
  Three job;
  job.feed(drain("n1"));
  job.feed(Lost{2, "end of file"});
  job.stop({1, 3});
  job.go();
  CHECK(job.members() == Agents{1, 3});
  job.join(4, false, 1);
  CHECK(job.told<Refused>(4) != nullptr);
}

TEST_CASE("excluding: another node that is told to end meanwhile ends the job if too few remain then") {
  Three job;
  job.feed(drain("n1"));
  job.feed(Said{3, Leaving{15}});
  job.stop({1, 2, 3});
  CHECK(job.ended(End::stopped));
}

TEST_CASE("excluding: all agents of a host are drained together") {
  Job job(Phase::forming);
  job.policy.min_nodes = 1;
  job.policy.max_nodes = 3;
  for (AgentId const agent : {2U, 3U}) {
    auto info = node(static_cast<std::uint32_t>(agent) - 1);
    info.host = "twice";
    job.feed(Joined{agent, info});
  }
  job.feed(StoreOpened{1, 1, 1});
  for (AgentId const agent : {1U, 2U, 3U}) {
    job.feed(Said{agent, Ack{1}});
  }
  REQUIRE(job.state.phase == Phase::running);
  job.policy.min_nodes = 2;
  job.feed(drain("twice"));
  CHECK(job.state.phase == Phase::running);
  job.policy.min_nodes = 1;
  job.feed(drain("twice"));
  REQUIRE(job.stops(StopKind::resize));
  for (AgentId const agent : {1U, 2U, 3U}) {
    job.feed(Said{agent, Stopped{1, {}, {}}});
  }
  CHECK(job.state.roster.excluded.size() == 2);
  CHECK(job.in(Phase::opening, 2));
}

TEST_CASE("excluding: who is not drained is told why, and nothing is done") {
  Three job(3);
  CHECK(job.refusal("n0") == "n0 coordinates the job, and cannot hand that over: drain another node, or stop the job");
  CHECK(job.refusal("n0.cluster") == job.refusal("n0"));
  CHECK(job.refusal("n9") == "no worker of this job runs on n9, but on n0, n1, n2");
  CHECK(job.refusal("n") == "no worker of this job runs on n, but on n0, n1, n2");
  CHECK(job.refusal("n1") == "2 nodes would be left without n1, spares included; --nnodes wants at least 3");
  CHECK(job.refusal("n1", 2) == "generation 2 does not run now");
  for (auto const* const name : {"n0", "n9", "n1"}) {
    job.feed(drain(name));
    CHECK(job.in(Phase::running, 1));
    CHECK((job.last.actions.empty() && job.last.story.empty()));
  }
  Three spare(2, 2);
  CHECK(spare.refusal("n1").empty());
  CHECK(spare.refusal("n2") == "no worker of this job runs on n2, but on n0, n1");  // it has no seat
  spare.feed(drain("n1"));
  CHECK(spare.refusal("n1") == "generation 1 does not run now");
}

}  // namespace cxxrun::test
