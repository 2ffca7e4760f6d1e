#include "tests/support/election_race.hpp"
#include "tests/support/membership_job.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using cxxrun::test::Job;
using cxxrun::test::node;

namespace {

constexpr TimeLeft kOwn{60s, true};
constexpr TimeLeft kOther{3600s, false};

/// What members 1 and 2 are told when the store is open.
void check_told(Job& job, std::uint64_t number, std::optional<TimeLeft> const& expected) {
  job.feed(StoreOpened{number, 1, 1});
  for (AgentId agent = 1; agent <= 2; ++agent) {
    auto const* const told = job.told<Prepare>(agent);
    REQUIRE(told != nullptr);
    CHECK(told->job_end == expected);
  }
}

}  // namespace

TEST_CASE("membership: all members are told the end of the coordinator's own agent, less the time since", "[unit]") {
  Job job(Phase::forming);
  job.state = {};
  job.feed(Opened{});
  job.feed(Joined{2, node(1), kOther});
  job.now += 1s;
  job.feed(Joined{1, node(0), kOwn});
  job.now += 5s;
  check_told(job, 1, TimeLeft{55s, true});
  for (AgentId agent = 1; agent <= 2; ++agent) {
    job.feed(Said{agent, Ack{1}});
  }
  job.feed(Joined{3, node(2), kOther});  // late: it starts counting anew
  job.feed(Said{2, WorkerFailed{1, Job::failure()}});
  job.now += 5s;
  job.stop_all();
  job.now += 5s;
  check_told(job, 2, TimeLeft{45s, true});
  job.now += 60s;
  job.feed(Lost{2, "reset"});
  job.feed(StoreOpened{job.state.number, 1, 1});
  auto const* const told = job.told<Prepare>(1);
  REQUIRE(told != nullptr);
  CHECK(told->job_end == TimeLeft{0s, true});  // never less than nothing
}

TEST_CASE("membership: where no agent hosts, the first agent that knows the end tells it to all", "[unit]") {
  Job job(Phase::forming, false, true);
  job.feed(Joined{2, node(1), kOther});
  check_told(job, 1, kOther);
}

TEST_CASE("membership: where nobody knows the end, nobody is told one", "[unit]") {
  Job job(Phase::opening);
  check_told(job, 1, std::nullopt);
}

TEST_CASE("membership: an elected coordinator keeps the end that it was told, whoever joins", "[unit]") {
  Job job(Phase::forming);
  job.state = {};
  job.state.phase = Phase::standby;
  Campaign campaign;
  campaign.decided = cxxrun::test::election::decree(1, 2);
  campaign.ballot = {2, 1};
  campaign.job_end = JobEnd{job.now + 60s, true};
  job.feed(campaign);
  job.feed(Joined{1, node(0), kOther});
  CHECK(job.state.job_end == campaign.job_end);
}
