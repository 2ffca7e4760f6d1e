// A node whose connection has ended may come back before a job of fixed size ends.
#include "tests/support/membership_job.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

/// Agent 2 of two that are needed is gone, and agent 1 has stopped its workers.
Job lost_in(Phase phase, Ended how, bool relayed = false, bool unhosted = false) {
  Job job(phase, false, unhosted);
  job.policy.min_nodes = 2;
  job.policy.expected_nodes = 2;  // no other node can come
  job.policy.heartbeat_timeout = 5s;
  job.state.roster.present.at(2).relayed = relayed;
  job.feed(Lost{2, "gone", how});
  if (phase == Phase::running) {
    job.feed(Said{1, Stopped{1, {}, {}}});
  }
  return job;
}

}  // namespace

TEST_CASE("membership: a node whose connection alone has ended may come back before a job of fixed size ends",
          "[unit]") {
  auto const how = GENERATE(Ended::goodbye, Ended::in_order, Ended::broken);
  auto const phase = GENERATE(Phase::preparing, Phase::running);
  Job job = lost_in(phase, how, false, GENERATE(false, true));
  REQUIRE(job.in(Phase::forming, 1));
  SECTION("it does, and a generation forms") {
    job.now += 1999ms;
    job.feed(Tick{});
    job.join(9, false, 1);
    CHECK(job.in(Phase::opening, 2));
    CHECK(job.state.restarts.consumed == 0);
  }
  SECTION("it does not") {
    job.now += 2s;
    job.feed(Tick{});
    CHECK(job.ended(End::too_few_nodes));
  }
  SECTION("its parent says that it is dead") {
    job.feed(ConfirmedDead{{1, 1}});
    CHECK(job.ended(End::too_few_nodes));
  }
}

TEST_CASE("membership: who is proven dead, was told to end or was silent on its own connection is not waited for",
          "[unit]") {
  SECTION("silent") {
    CHECK(lost_in(Phase::running, Ended::silent).ended(End::too_few_nodes));
  }
  SECTION("silent on a connection that may be another's") {
    CHECK(lost_in(Phase::running, Ended::silent, true).in(Phase::forming, 1));
  }
  SECTION("its parent has said so before the connection ended") {
    Job job(Phase::running);
    job.policy.min_nodes = 2;
    job.policy.heartbeat_timeout = 5s;
    job.feed(ConfirmedDead{{1, 1}});
    job.feed(Said{1, Stopped{1, {}, {}}});
    CHECK(job.ended(End::too_few_nodes));
  }
}
