#include "launcher/job_end/end_reason.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::requeue;  // NOLINT(google-build-using-namespace)

namespace {

constexpr char const* kNow = "2026-11-23T22:59:50";

JobState job(std::string state, std::string reason = "None", std::string preempted_at = "") {
  JobState made;
  made.state = std::move(state);
  made.reason = std::move(reason);
  made.preempted_at = std::move(preempted_at);
  made.ends_at = "2026-11-23T23:00:30";
  return made;
}

std::string reason(JobState const& state, std::uint32_t restarts = 0) {
  return end_reason(state, restarts, "2026-11-23T22:49:50", kNow);
}

}  // namespace

// What slurmctld said in each case was measured: docs/use/requeue.md.
TEST_CASE("end reason: a time limit, scancel and a requeue are told apart", "[unit]") {
  CHECK(reason(job("COMPLETING", "TimeLimit")) == "time limit reached");
  CHECK(reason(job("TIMEOUT", "TimeLimit")) == "time limit reached");
  CHECK(reason(job("COMPLETING")) == "cancelled");
  CHECK(reason(job("CANCELLED")) == "cancelled");
  auto requeued = job("COMPLETING");
  requeued.restarts = 3;
  CHECK(reason(requeued, 2) == "requeued by Slurm");
  CHECK(reason(requeued, 3) == "cancelled");
  CHECK(reason(job("PENDING", "BeginTime")) == "requeued by Slurm");
}

TEST_CASE("end reason: a preemption with the grace that is left, if it is this one", "[unit]") {
  CHECK(reason(job("RUNNING", "None", "2026-11-23T22:59:30")) == "preempted, about 40 s left");
  CHECK(reason(job("COMPLETING", "None", "2026-11-23T22:59:30")) == "preempted");
  CHECK(reason(job("RUNNING", "None", "2026-11-22T22:59:30")) == "for Slurm the job goes on");
  auto unknown = job("RUNNING", "None", "2026-11-23T22:59:30");
  for (char const* const end : {"Unknown", "", "2026-11-23T22:59:50", "2026-13-23T23:59:50", "2026-11-23Tx:1:2", "T"}) {
    unknown.ends_at = end;
    CHECK(reason(unknown) == "preempted");
  }
}

TEST_CASE("end reason: SIGTERM for a job that Slurm does not end", "[unit]") {
  CHECK(reason(job("RUNNING")) == "for Slurm the job goes on");
  CHECK(reason(job("NODE_FAIL")) == "a node failed");
  CHECK(reason(job("COMPLETING", "NodeDown")) == "a node failed");
  CHECK(reason(job("SOMETHING\nnew")) == "for Slurm the job is SOMETHING?new");
}
