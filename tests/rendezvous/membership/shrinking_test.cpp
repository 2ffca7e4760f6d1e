// Nodes that lack workers: whether the others go on without them, and when they are back.
#include "tests/support/membership_job.hpp"

namespace cxxrun::test {
namespace {

/// Agents 1 (which hosts) to 3, without votes, of which `min` are enough.
struct Elastic : Job {
  explicit Elastic(std::uint32_t min, std::uint32_t max = 3) : Job(Phase::forming) {
    policy.restart_delay = Millis{0};
    policy.min_nodes = min;
    policy.max_nodes = max;
    join(2);
    join(3);
    go();
  }
  /// Starts the generation that is being formed.
  void go() {
    told_left_out = told<LeftOut>(1) != nullptr || told<LeftOut>(2) != nullptr || told<LeftOut>(3) != nullptr;
    Job::go();
  }
  /// A worker of `agent` has failed, and those in `lack` have ended.
  void fail(AgentId agent, std::vector<AgentId> const& lack) {
    feed(Said{agent, WorkerFailed{state.number, failure()}});
    REQUIRE(state.phase == Phase::stopping);
    for (auto const& seat : std::vector(state.group.seats)) {
      bool const lacks = std::find(lack.begin(), lack.end(), seat.agent) != lack.end();
      feed(Said{seat.agent, Stopped{state.number, {}, {}, {}, lacks}});
    }
  }
  bool told_left_out = false;
};

using Agents = std::vector<AgentId>;

}  // namespace

TEST_CASE("membership: the others go on at once without a node that lacks workers, and take it in at its old rank") {
  for (AgentId const out : {2U, 3U}) {
    Elastic job(1);
    job.fail(out, {out});
    CHECK(job.state.phase == Phase::opening);
    REQUIRE(job.told<LeftOut>(out) != nullptr);
    job.go();
    Agents const others{1, 5 - out};
    CHECK(job.members() == others);
    CHECK(job.state.restarts.consumed == 1);
    CHECK_FALSE(job.state.timers.scale_out);  // no node that could start waits for a seat
    job.feed(Said{out, Complete{1}});
    CHECK(job.stops(StopKind::resize));
    job.feed(Said{others[0], Stopped{job.state.number, {}, {}}});
    job.feed(Said{others[1], Stopped{job.state.number, {}, {}}});
    job.go();
    CHECK_FALSE(job.told_left_out);
    CHECK(job.members() == Agents{1, 2, 3});
    CHECK(job.state.restarts.consumed == 1);  // that of the failure
    CHECK(job.state.roster.left_out.empty());
  }
}

TEST_CASE("membership: the node of the coordinator is not left out, so that the job outlives its loss") {
  Elastic job(1);
  job.fail(1, {1, 3});
  job.go();
  CHECK(job.members() == Agents{1, 2});
  job.feed(Said{3, Complete{1}});
  CHECK(job.stops(StopKind::resize));
}

TEST_CASE("membership: where fewer than MIN would go on all wait for what is missing, as ever") {
  Elastic job(3);
  job.fail(2, {2});
  job.go();
  CHECK_FALSE(job.told_left_out);
  CHECK(job.members() == Agents{1, 2, 3});
  Elastic two(2);
  two.fail(2, {2, 3});
  two.go();
  CHECK_FALSE(two.told_left_out);
  CHECK(two.members() == Agents{1, 2, 3});
}

TEST_CASE("membership: a node whose workers are on their way is taken in when fewer than MIN would be left") {
  Elastic job(2);
  job.fail(2, {2});
  job.go();
  CHECK(job.members() == Agents{1, 3});
  job.fail(3, {3});  // a kill while the job has shrunk
  job.go();
  CHECK_FALSE(job.told_left_out);
  CHECK(job.members() == Agents{1, 2, 3});
  job.feed(Said{2, Complete{1}});  // said before it heard of this generation
  CHECK(job.state.phase == Phase::running);
}

TEST_CASE("membership: a node that is lost while it is left out is forgotten, and comes as any other") {
  Elastic job(1);
  job.fail(2, {2});
  job.go();
  job.feed(Lost{2, "end of file"});
  CHECK(job.state.roster.left_out.empty());
  CHECK(job.state.phase == Phase::running);
  job.feed(Said{2, Complete{1}});
  CHECK(job.state.phase == Phase::running);
}

TEST_CASE(
    "membership: one that is complete while the others start enters as soon as they run, at once again and again") {
  Elastic job(1);
  for (AgentId const out : {3U, 2U}) {  // the spacing of joins does not count
    job.fail(out, {out});
    job.feed(Said{out, Complete{1}});
    CHECK(job.state.phase == Phase::opening);
    job.go();
    CHECK(job.members() == Agents{1, 5 - out});
    REQUIRE(job.state.timers.scale_out);
    job.now = *job.state.timers.scale_out;
    job.feed(Tick{});
    CHECK(job.stops(StopKind::resize));
    job.feed(Said{1, Stopped{job.state.number, {}, {}}});
    job.feed(Said{5 - out, Stopped{job.state.number, {}, {}}});
    job.go();
    CHECK(job.members() == Agents{1, 2, 3});
  }
}

TEST_CASE("membership: a spare takes the seat of a node that lacks workers, which is a spare then") {
  Elastic job(2, 2);
  REQUIRE(job.members() == Agents{1, 2});
  job.fail(2, {2});
  job.go();
  CHECK(job.told_left_out);
  CHECK(job.members() == Agents{1, 3});
  job.feed(Said{2, Complete{1}});
  CHECK(job.state.phase == Phase::running);
  job.fail(3, {3});
  job.go();
  CHECK(job.members() == Agents{1, 2});
}

TEST_CASE("membership: with --scale-out=at-restart a node that is complete waits for the next restart") {
  Elastic job(1);
  job.policy.scale_out_now = false;
  job.fail(2, {2});
  job.go();
  job.feed(Said{2, Complete{1}});
  CHECK(job.state.phase == Phase::running);
  job.fail(1, {});
  job.go();
  CHECK(job.members() == Agents{1, 2, 3});
}

TEST_CASE("membership: whoever does not park in time for another size is waited for") {
  Elastic job(1);
  job.fail(2, {2});
  job.go();
  job.feed(Said{2, Complete{1}});
  REQUIRE(job.stops(StopKind::resize));
  job.feed(Said{1, Stopped{job.state.number, {}, {}}});
  job.feed(Said{3, Stopped{job.state.number, {}, {}, {}, true}});
  job.go();
  CHECK_FALSE(job.told_left_out);
  CHECK(job.members() == Agents{1, 2, 3});
}

TEST_CASE("membership: the end of the job leaves nobody out") {
  Elastic job(1);
  job.policy.max_restarts_given = true;
  job.policy.max_restarts = 0;
  job.fail(2, {2});
  CHECK(job.state.phase == Phase::finished);
  CHECK(job.told<LeftOut>(2) == nullptr);
  CHECK(job.told<Finished>(2) != nullptr);
}

}  // namespace cxxrun::test
