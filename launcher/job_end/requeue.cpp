#include "launcher/job_end/requeue.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::requeue {
namespace {

using rendezvous::End;

constexpr std::string_view kNotRequeued = "not requeued: ";

/// The value behind " KEY=", up to the next blank. A job's name and command may hold blanks and anything else, but the
/// fields asked for are matched with the blank before them, first one first.
std::optional<std::string> field(std::string_view line, std::string const& key) {
  auto const at = (" " + std::string(line)).find(" " + key + "=");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  auto const rest = line.substr(at + key.size() + 1);
  return std::string(rest.substr(0, rest.find(' ')));
}

bool lasted(Ended how) {
  return how == Ended::stopped || how == Ended::limit || how == Ended::checkpointed;
}

bool is_one_of(std::string const& word, std::initializer_list<char const*> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// Why Slurm's own state of the job forbids a requeue; "" when it does not.
std::string objection(Facts const& facts, JobState const& job) {
  if (job.het) {
    return "a heterogeneous job cannot be requeued from inside";
  }
  if (!job.batch) {
    return "only a batch job can be; submit it with sbatch";
  }
  if (is_requeued(job, facts.restarts)) {
    return "Slurm has requeued the job itself";
  }
  if (!job.requeue) {
    return "Slurm refuses for this job (sbatch --no-requeue, or JobRequeue=0); submit it with --requeue";
  }
  bool const by_slurm = job.reason == "TimeLimit" || is_preempted(job, facts.recent) ||
                        is_one_of(job.state, {"TIMEOUT", "PREEMPTED", "NODE_FAIL", "DEADLINE"});
  if (job.state == "RUNNING") {
    bool const by_hand = facts.how == Ended::stopped && !by_slurm;  // preempted, it runs on until its grace is over
    return by_hand ? "the job was told to end, but not by Slurm, for which it is running" : "";
  }
  if (job.state == "COMPLETING" || by_slurm) {
    return by_slurm ? "" : "the job was cancelled (Slurm names neither a time limit nor a preemption)";
  }
  return "for Slurm the job is " + printable(job.state, 40);
}

std::string because(Facts const& facts, JobState const& job) {
  if (is_preempted(job, facts.recent)) {
    return "preempted";
  }
  if (job.reason == "TimeLimit" || facts.how == Ended::limit) {
    return "the time limit is reached";
  }
  switch (facts.how) {
    case Ended::nodes_lost: return "too few nodes";
    case Ended::unkillable: return "a worker survived SIGKILL";
    case Ended::checkpointed: return "a worker ended after the checkpoint signal";
    default: return "told to end";
  }
}

/// Runs at the end of the history that made no progress.
std::size_t fruitless(History const& history) {
  std::size_t count = 0;
  for (auto run = history.runs.rbegin(); run != history.runs.rend() && !run->progress; ++run) {
    ++count;
  }
  return count;
}

}  // namespace

Ended how_it_ended(rendezvous::Verdict const& verdict, bool checkpoint_passed, bool limit_reached) {
  switch (verdict.end) {
    case End::success: return Ended::success;
    case End::stopped:
      return verdict.exit_code != 128 + SIGTERM ? Ended::otherwise : limit_reached ? Ended::limit : Ended::stopped;
    case End::too_few_nodes: return Ended::nodes_lost;
    case End::unkillable: return Ended::unkillable;
    case End::worker_failed:
    case End::failed_alike: return checkpoint_passed ? Ended::checkpointed : Ended::otherwise;
    case End::could_not_start:
    case End::partitioned:  // the other side may be at work in this very job
    case End::system_failure: break;
  }
  return Ended::otherwise;
}

char const* name_of(Ended how) {
  static constexpr std::array kNames{"success",    "stopped",      "time-limit", "nodes-lost",
                                     "unkillable", "checkpointed", "otherwise"};
  return kNames.at(static_cast<std::size_t>(how));
}

bool may_run_again(Ended how) {
  return how != Ended::success && how != Ended::otherwise;
}

std::string job_name(Environment const& environment) {
  auto const array = value_of(environment, "SLURM_ARRAY_JOB_ID");
  auto const task = value_of(environment, "SLURM_ARRAY_TASK_ID");
  return array.empty() || task.empty() ? value_of(environment, "SLURM_JOB_ID") : array + "_" + task;
}

bool is_requeued(JobState const& job, std::uint32_t restarts) {
  return job.restarts > restarts || is_one_of(job.state, {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"});
}

bool is_preempted(JobState const& job, std::string const& recent) {
  return !job.preempted_at.empty() && job.preempted_at >= recent;
}

Result<JobState> parse_job_state(std::string_view text) {
  text = trim(text);
  auto const state = field(text, "JobState");
  auto const reason = field(text, "Reason");
  auto const restarts = parse_unsigned(field(text, "Restarts").value_or(""), 0, UINT32_MAX);
  if (!text.starts_with("JobId=") || text.find('\n') != std::string_view::npos || !state || state->empty() || !reason ||
      !restarts) {
    return fail(Errc::protocol, "scontrol did not show one job: " + printable(text.substr(0, text.find('\n')), 120));
  }
  auto const preempted = field(text, "PreemptTime").value_or("None");
  JobState job;
  job.state = *state;
  job.reason = *reason;
  job.restarts = static_cast<std::uint32_t>(*restarts);
  job.requeue = field(text, "Requeue") != "0";
  job.batch = field(text, "BatchFlag") != "0";
  job.preempted_at = preempted == "None" || preempted == "Unknown" ? "" : preempted;
  job.ends_at = field(text, "EndTime").value_or("");
  job.het = field(text, "HetJobId").has_value();
  auto const kept_from = field(text, "ExcNodeList").value_or("(null)");
  job.kept_from = kept_from == "(null)" ? "" : kept_from;
  return job;
}

Decision decide(Facts const& facts, Result<JobState> const& job, std::uint32_t most, History history) {
  Decision decision;
  // Entries of this run or of a later one are another job's: job numbers begin again one day.
  std::erase_if(history.runs, [&](Run const& run) { return run.restarts >= facts.restarts; });
  bool const progress = facts.progress.value_or(lasted(facts.how));
  history.runs.push_back({facts.restarts, name_of(facts.how), progress});
  decision.history = std::move(history);
  decision.history.faults = facts.faults;
  if (!job) {
    decision.line = std::string(kNotRequeued) + job.error().message();
    return decision;
  }
  if (auto const why_not = objection(facts, *job); !why_not.empty()) {
    decision.line = std::string(kNotRequeued) + why_not;
    return decision;
  }
  auto const without = fruitless(decision.history);
  if (without > most) {
    decision.line = std::string(kNotRequeued) + "no progress in " + std::to_string(without) +
                    (without == 1 ? " run" : " runs") + "; look at why before it is submitted again (--max-requeues " +
                    std::to_string(most) + ")";
    decision.exit_code = kExitNoProgress;
    return decision;
  }
  decision.requeue = true;
  decision.line = because(facts, *job);
  if (without > 0) {
    decision.line += ", " + std::to_string(without) + " of at most " + std::to_string(most) + " without progress";
  }
  return decision;
}

Decision without_history(Decision decision, Facts const& facts, std::uint32_t most) {
  if (decision.requeue && facts.restarts >= most) {
    decision.requeue = false;
    decision.line = std::string(kNotRequeued) + "its history cannot be kept, and it has run " +
                    std::to_string(facts.restarts + 1) + " times (--max-requeues " + std::to_string(most) + ")";
    decision.exit_code = kExitNoProgress;
  }
  return decision;
}

}  // namespace cxxrun::launcher::requeue
