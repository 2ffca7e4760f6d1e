#include "launcher/job_end/requeue.hpp"

#include <csignal>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::requeue;  // NOLINT(google-build-using-namespace)
using cxxrun::Errc;
using cxxrun::fail;
using cxxrun::Result;
using cxxrun::rendezvous::End;
using cxxrun::rendezvous::Verdict;

namespace {

// As slurmctld 22.05 shows it, with the fields that a user chooses made as confusing as they can be.
std::string shown(std::string const& state, std::string const& more = "Requeue=1 Restarts=0 BatchFlag=1") {
  return "JobId=16 ArrayJobId=15 ArrayTaskId=1 JobName=my Job.sh UserId=root(0) GroupId=root(0) Priority=4294901745 "
         "QOS=(null) JobState=" +
         state + " Dependency=(null) " + more +
         " Reboot=0 ExitCode=0:15 TimeLimit=00:10:00 StartTime=2026-11-21T00:23:28 Command=/w/a JobState=x Reason=y "
         "Power= \n";
}

constexpr char const* kTimeLimit = "COMPLETING Reason=TimeLimit";
constexpr char const* kCancelled = "COMPLETING Reason=None";
constexpr char const* kRunning = "RUNNING Reason=None";

Decision decided(Ended how, std::string const& text, History history = {}, std::uint32_t restarts = 0) {
  return decide({how, restarts, std::nullopt}, parse_job_state(text), 3, std::move(history));
}

Verdict verdict(End end, int code) {
  Verdict made;
  made.end = end;
  made.exit_code = code;
  return made;
}

}  // namespace

TEST_CASE("requeue: scontrol's line is read, whatever the job is called", "[unit]") {
  auto const job = parse_job_state(shown("COMPLETING Reason=TimeLimit", "Requeue=0 Restarts=2 BatchFlag=0"));
  REQUIRE(job);
  CHECK(*job == JobState{"COMPLETING", "TimeLimit", 2, false, false, "", false});
  CHECK(parse_job_state(shown(kRunning, "Requeue=1 Restarts=0 BatchFlag=2 PreemptTime=None HetJobId=7"))->het);
  CHECK(parse_job_state(shown(kRunning, "Restarts=0 PreemptTime=None"))->preempted_at.empty());
  CHECK(parse_job_state(shown(kCancelled, "Restarts=0 PreemptTime=2026-11-21T00:21:47"))->preempted_at ==
        "2026-11-21T00:21:47");
}

TEST_CASE("requeue: what is not one job is no answer", "[unit]") {
  std::string const whole_array = shown(kRunning) + shown(kRunning);
  for (std::string const& text : {std::string(), std::string("slurm_load_jobs error: Invalid job id specified"),
                                  std::string("JobId=1"), std::string("JobId=1 JobState= Reason=x Restarts=0"),
                                  std::string("JobId=1 JobState=RUNNING Reason=None Restarts=x"), whole_array}) {
    CHECK_FALSE(parse_job_state(text));
  }
}

TEST_CASE("requeue: the end of a job as Slurm's doing is told from the user's", "[unit]") {
  CHECK(decided(Ended::stopped, shown(kTimeLimit)).requeue);
  CHECK(decided(Ended::stopped, shown(kCancelled, "Restarts=0 PreemptTime=2026-11-21T00:21:47")).requeue);
  CHECK_FALSE(decided(Ended::stopped, shown(kCancelled)).requeue);
  CHECK_FALSE(decided(Ended::stopped, shown("CANCELLED Reason=None")).requeue);
  CHECK_FALSE(decided(Ended::stopped, shown(kRunning)).requeue);  // a kill -TERM by hand
  CHECK(
      decided(Ended::stopped, shown(kRunning, "Restarts=0 PreemptTime=2026-11-21T00:21:47")).requeue);  // in its grace
  CHECK(decided(Ended::limit, shown(kRunning)).requeue);
  CHECK(decided(Ended::nodes_lost, shown(kRunning)).requeue);
  CHECK_FALSE(decided(Ended::nodes_lost, shown(kCancelled)).requeue);
  CHECK(decided(Ended::checkpointed, shown(kRunning)).requeue);
  CHECK_FALSE(decided(Ended::checkpointed, shown(kCancelled)).requeue);
  CHECK_FALSE(decided(Ended::nodes_lost, shown("FAILED Reason=None")).requeue);
}

TEST_CASE("requeue: a preemption that the job survived is none", "[unit]") {
  auto const job = parse_job_state(shown(kCancelled, "Restarts=0 PreemptTime=2026-11-21T00:21:47"));
  REQUIRE(job);
  CHECK(decide({Ended::stopped, 0, std::nullopt, "2026-11-21T00:12:00"}, job, 3, {}).requeue);
  CHECK_FALSE(decide({Ended::stopped, 0, std::nullopt, "2026-11-21T00:22:00"}, job, 3, {}).requeue);
}

TEST_CASE("requeue: without a history Slurm's own count of runs is the limit", "[unit]") {
  auto const third = decided(Ended::nodes_lost, shown(kRunning, "Restarts=2"), {}, 2);
  CHECK(without_history(third, {Ended::nodes_lost, 2, std::nullopt}, 3).requeue);
  auto const over = without_history(third, {Ended::nodes_lost, 3, std::nullopt}, 3);
  CHECK_FALSE(over.requeue);
  CHECK(over.exit_code == 115);
}

TEST_CASE("requeue: what Slurm has queued again itself, or never will, is left alone", "[unit]") {
  for (auto const& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {shown(kCancelled, "Requeue=1 Restarts=1 BatchFlag=1"), "Slurm has requeued"},
           {shown("PENDING Reason=BeginTime"), "Slurm has requeued"},
           {shown(kTimeLimit, "Requeue=0 Restarts=0 BatchFlag=1"), "--requeue"},
           {shown(kTimeLimit, "Requeue=1 Restarts=0 BatchFlag=0"), "sbatch"},
           {shown(kTimeLimit, "Requeue=1 Restarts=0 BatchFlag=1 HetJobId=15"), "heterogeneous"}}) {
    auto const decision = decided(Ended::stopped, text);
    CHECK_FALSE(decision.requeue);
    CHECK(decision.line.find(part) != std::string::npos);
    CHECK_FALSE(decision.exit_code);
  }
  CHECK(decided(Ended::stopped, shown(kTimeLimit, "Restarts=1"), {}, 1).requeue);
}

TEST_CASE("requeue: no answer, no requeue, and the line says why", "[unit]") {
  auto const decision = decide({Ended::stopped, 0, true}, Result<JobState>(fail(Errc::timeout, "no answer")), 3, {});
  CHECK_FALSE(decision.requeue);
  CHECK(decision.line == "not requeued: no answer");
  CHECK_FALSE(decision.exit_code);
}

TEST_CASE("requeue: runs in a row without progress end in a code of their own", "[unit]") {
  History history;
  for (std::uint32_t run = 0; run < 3; ++run) {
    auto const decision = decided(Ended::nodes_lost, shown(kRunning, "Restarts=" + std::to_string(run)), history, run);
    CHECK(decision.requeue);
    history = parse_history(format_history(decision.history));
  }
  auto const last = decided(Ended::nodes_lost, shown(kRunning, "Restarts=3"), history, 3);
  CHECK_FALSE(last.requeue);
  CHECK(last.exit_code == 115);
  CHECK(last.line.find("no progress in 4 runs") != std::string::npos);
  history.runs.back().progress = true;
  CHECK(decided(Ended::nodes_lost, shown(kRunning, "Restarts=3"), history, 3).requeue);
}

TEST_CASE("requeue: without a path, lasting until Slurm's end is progress and losing nodes is not", "[unit]") {
  CHECK(decided(Ended::stopped, shown(kTimeLimit)).history.runs.back().progress);
  CHECK(decided(Ended::checkpointed, shown(kRunning)).history.runs.back().progress);
  CHECK_FALSE(decided(Ended::nodes_lost, shown(kRunning)).history.runs.back().progress);
  Facts late{Ended::checkpointed, 0, std::nullopt};  // the signal was due at once: the run has not lasted until then
  late.late = true;
  auto const soon = decide(late, parse_job_state(shown(kRunning)), 3, {});
  CHECK(soon.requeue);
  CHECK_FALSE(soon.history.runs.back().progress);
  auto const told = decide({Ended::stopped, 0, false}, parse_job_state(shown(kTimeLimit)), 3, {});
  CHECK_FALSE(told.history.runs.back().progress);
}

TEST_CASE("requeue: the history of another job with the same number is forgotten", "[unit]") {
  History const old{{{0, "nodes-lost", false}, {1, "nodes-lost", false}, {2, "nodes-lost", false}}, false};
  auto const decision = decided(Ended::nodes_lost, shown(kRunning), old, 0);
  CHECK(decision.requeue);
  CHECK(decision.history.runs.size() == 1);
}

TEST_CASE("requeue: garbage in the history is ignored and told, and the history stays small", "[unit]") {
  auto const history = parse_history("run 0 stopped progress\nrun x stopped none\n\nnonsense\nrun 1 nodes-lost none\n");
  CHECK(history.garbage);
  CHECK(history.runs == std::vector<Run>{{0, "stopped", true}, {1, "nodes-lost", false}});
  std::string many;
  for (int i = 0; i < 1000; ++i) {
    many += "run " + std::to_string(i) + " stopped none\n";
  }
  CHECK(parse_history(many).runs.size() == kMostRuns);
  CHECK(parse_history(many).runs.back().restarts == 999);
}

TEST_CASE("requeue: only ends that are not the job's own doing are a reason to ask", "[unit]") {
  CHECK(how_it_ended(verdict(End::stopped, 128 + SIGTERM), false, false) == Ended::stopped);
  CHECK(how_it_ended(verdict(End::stopped, 128 + SIGTERM), false, true) == Ended::limit);
  CHECK(how_it_ended(verdict(End::stopped, 128 + SIGINT), true, true) == Ended::otherwise);
  CHECK(how_it_ended(verdict(End::worker_failed, 3), false, false) == Ended::otherwise);
  CHECK(how_it_ended(verdict(End::worker_failed, 3), true, false) == Ended::checkpointed);
  CHECK(how_it_ended(verdict(End::could_not_start, 127), true, false) == Ended::otherwise);
  CHECK(how_it_ended(verdict(End::too_few_nodes, 112), false, false) == Ended::nodes_lost);
  CHECK(how_it_ended(verdict(End::partitioned, 116), false, false) == Ended::otherwise);
  CHECK_FALSE(may_run_again(Ended::success));
  CHECK_FALSE(may_run_again(Ended::otherwise));
}

TEST_CASE("requeue: a task of an array is called by its index, not by a number that may mean all tasks", "[unit]") {
  CHECK(job_name({{"SLURM_JOB_ID", "15"}}) == "15");
  CHECK(job_name({{"SLURM_JOB_ID", "15"}, {"SLURM_ARRAY_JOB_ID", "15"}, {"SLURM_ARRAY_TASK_ID", "2"}}) == "15_2");
  CHECK(job_name({{"SLURM_JOB_ID", "16"}, {"SLURM_ARRAY_JOB_ID", "15"}, {"SLURM_ARRAY_TASK_ID", "1"}}) == "16");
  CHECK(job_name({}).empty());
}

TEST_CASE("requeue: what nodes were to blame for is kept with the runs", "[unit]") {
  History history;
  history.runs = {{0, "nodes-lost", false}};
  history.faults = {{"node3", "lost"}, {"node1", "rank 3: signal 7 (SIGBUS)", 18446744073709551615U}};
  auto const text = format_history(history);
  CHECK(text ==
        "run 0 nodes-lost none\nnode node3 0 lost\nnode node1 18446744073709551615 rank 3: signal 7 (SIGBUS)\n");
  auto const again = parse_history(text);
  CHECK_FALSE(again.garbage);
  CHECK(again.faults == history.faults);
  for (auto const* const bad : {"node", "node a", "node a x lost", "node a 7", "node  7 lost", "node a -1 lost"}) {
    CHECK(parse_history(bad).garbage);
  }
  history.faults.assign(2 * kMostRuns, {"a", "two\nlines \033[31m" + std::string(1000, 'x')});
  auto const bounded = parse_history(format_history(history));
  CHECK(bounded.faults.size() == kMostRuns);
  CHECK_FALSE(bounded.garbage);
  CHECK(bounded.faults.front().what.size() < 300);
}

TEST_CASE("requeue: this run's verdict on the nodes takes the place of what was known before", "[unit]") {
  History history;
  history.faults = {{"acquitted", "lost"}};
  Facts facts{Ended::stopped, 0, std::nullopt};
  facts.faults = {{"node3", "lost"}};
  CHECK(decide(facts, parse_job_state(shown(kCancelled)), 3, history).history.faults == facts.faults);
}

TEST_CASE("requeue: nodes that were to blame twice are named with what keeps the next run from them", "[unit]") {
  CHECK(exclusion_advice({}, "7", nullptr).empty());
  CHECK(exclusion_advice({{"a", "lost"}, {"b", "lost"}}, "7", nullptr).empty());
  CHECK(exclusion_advice({{"a;rm x", "lost"}, {"a;rm x", "lost"}}, "7", nullptr).empty());
  std::vector<cxxrun::rendezvous::NodeFault> const faults = {{"b", "lost"}, {"a", "lost"}, {"b", "x"}, {"a", "y"}};
  std::string const causes =
      "a was the cause of 2 failures (the last one y), b was the cause of 2 failures (the last one x); ";
  CHECK(exclusion_advice(faults, "7", nullptr) == causes + "the next time: sbatch --exclude=a,b");
  JobState job;
  CHECK(exclusion_advice(faults, "7_2", &job) ==
        causes + "until the next run starts: scontrol update JobId=7_2 ExcNodeList=a,b");
  job = *parse_job_state(shown(kRunning, "Restarts=0 ExcNodeList=c[1-2]"));
  CHECK(exclusion_advice(faults, "7", &job).ends_with(" ExcNodeList=c[1-2],a,b"));
  CHECK(parse_job_state(shown(kRunning, "Restarts=0 ExcNodeList=(null)"))->kept_from.empty());
}

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
  CHECK(reason(job("RUNNING", "None", "2026-11-22T22:59:30")) == "Slurm still shows the job as running");
  auto unknown = job("RUNNING", "None", "2026-11-23T22:59:30");
  for (char const* const end : {"Unknown", "", "2026-11-23T22:59:50", "2026-13-23T23:59:50", "2026-11-23Tx:1:2", "T"}) {
    unknown.ends_at = end;
    CHECK(reason(unknown) == "preempted");
  }
}

TEST_CASE("end reason: SIGTERM for a job that Slurm does not end", "[unit]") {
  CHECK(reason(job("RUNNING")) == "Slurm still shows the job as running");
  CHECK(reason(job("NODE_FAIL")) == "a node failed");
  CHECK(reason(job("COMPLETING", "NodeDown")) == "a node failed");
  CHECK(reason(job("SOMETHING\nnew")) == "Slurm shows the job as SOMETHING?new");
}
