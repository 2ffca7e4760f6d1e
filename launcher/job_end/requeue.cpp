#include "launcher/job_end/requeue.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <map>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::requeue {
namespace {

using rendezvous::End;
using rendezvous::NodeFault;

constexpr std::string_view kNotRequeued = "not requeued: ";

/// The value of the first " KEY=", up to the next blank. The blank before the key keeps one key from matching the end
/// of another. A job's name and command may contain anything.
std::optional<std::string> field(std::string_view line, std::string const& key) {
  auto const at = (" " + std::string(line)).find(" " + key + "=");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  auto const rest = line.substr(at + key.size() + 1);
  return std::string(rest.substr(0, rest.find(' ')));
}

/// Without --progress-path: whether such an end counts as progress.
bool lasted(Facts const& facts) {
  bool const until_signal = facts.how == Ended::checkpointed && !facts.late;
  return facts.how == Ended::stopped || facts.how == Ended::limit || until_signal;
}

bool is_one_of(std::string const& word, std::initializer_list<char const*> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Whether Slurm has requeued the job since the run with that SLURM_RESTART_COUNT began. In a first run Slurm does not
/// set it, so it may be that of the requeued job which submitted this one, and higher than Slurm's own count.
bool is_requeued(JobState const& job, std::uint32_t restarts) {
  auto const began = restarts > job.restarts ? 0 : restarts;
  return job.restarts > began || is_one_of(job.state, {"PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"});
}

/// Whether the job was preempted, and not before `recent`: a job that was suspended for another one and then resumed
/// keeps its PreemptTime. Slurm's times compare as text.
bool is_preempted(JobState const& job, std::string const& recent) {
  return !job.preempted_at.empty() && job.preempted_at >= recent;
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
    // A preempted job is RUNNING until its grace is over.
    bool const by_hand = facts.how == Ended::stopped && !by_slurm;
    return by_hand ? "the job was told to end, but not by Slurm, which still shows it as running" : "";
  }
  if (job.state == "COMPLETING" || by_slurm) {
    return by_slurm ? "" : "the job was cancelled (Slurm names neither a time limit nor a preemption)";
  }
  return "Slurm shows the job as " + printable(job.state, 40);
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

/// How many runs at the end of the history made no progress.
std::size_t fruitless(History const& history) {
  std::size_t count = 0;
  for (auto run = history.runs.rbegin(); run != history.runs.rend() && !run->progress; ++run) {
    ++count;
  }
  return count;
}

/// Seconds of "2026-11-23T22:51:07" in an unknown zone, for differences. Nothing for "Unknown" and the like.
std::optional<std::int64_t> seconds_of(std::string const& time) {
  auto const parts = split(time, 'T');
  auto const date = split(parts.front(), '-');
  auto const clock = split(parts.back(), ':');
  if (parts.size() != 2 || date.size() != 3 || clock.size() != 3) {
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (auto const& words : {date, clock}) {
    for (auto const& word : words) {
      auto const number = parse_unsigned(word, 0, 9999);
      if (!number) {
        return std::nullopt;
      }
      numbers.push_back(static_cast<std::int64_t>(*number));
    }
  }
  using namespace std::chrono;  // NOLINT(google-build-using-namespace)
  auto const day = year(static_cast<int>(numbers[0])) / static_cast<int>(numbers[1]) / static_cast<int>(numbers[2]);
  return day.ok() ? std::optional(sys_days(day).time_since_epoch().count() * std::int64_t{86'400} + numbers[3] * 3600 +
                                  numbers[4] * 60 + numbers[5])
                  : std::nullopt;
}

std::string grace_left(JobState const& job, std::string const& now) {
  auto const end = seconds_of(job.ends_at);
  auto const at = seconds_of(now);
  return job.state == "RUNNING" && end && at && *end > *at ? ", about " + std::to_string(*end - *at) + " s left" : "";
}

constexpr std::size_t kLongestWhat = 200;

std::optional<Run> parse_run(std::string_view line) {
  auto const words = split(line, ' ');
  if (words.size() != 4 || words[0] != "run" || words[2].empty() || (words[3] != "progress" && words[3] != "none")) {
    return std::nullopt;
  }
  auto const restarts = parse_unsigned(words[1], 0, UINT32_MAX);
  if (!restarts) {
    return std::nullopt;
  }
  return Run{static_cast<std::uint32_t>(*restarts), words[2], words[3] == "progress"};
}

std::optional<NodeFault> parse_fault(std::string_view line) {
  auto const words = split(line, ' ');
  if (words.size() < 4 || words[0] != "node" || words[1].empty()) {
    return std::nullopt;
  }
  auto const look = parse_unsigned(words[2], 0, UINT64_MAX);
  if (!look) {
    return std::nullopt;
  }
  auto const before = words[0].size() + words[1].size() + words[2].size() + 3;
  return NodeFault{words[1], printable(line.substr(before), kLongestWhat), *look};
}

/// Whether the host is a valid node name of Slurm. An agent may call itself anything, and users paste the advice into a
/// shell.
bool is_node_name(std::string const& host) {
  return !host.empty() && std::ranges::all_of(host, [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
  });
}

template <class Entry>
void keep_newest(std::vector<Entry>& entries) {
  if (entries.size() > kMostRuns) {
    entries.erase(entries.begin(), entries.end() - kMostRuns);
  }
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
    case End::partitioned:  // the other side may be running in this very job
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
  auto job = value_of(environment, "SLURM_JOB_ID");
  auto const task = value_of(environment, "SLURM_ARRAY_TASK_ID");
  // A job that a task of an array has submitted inherits the array's variables: sbatch does not unset them.
  bool const of_array = !job.empty() && !task.empty() && job == value_of(environment, "SLURM_ARRAY_JOB_ID");
  return of_array ? job + "_" + task : job;
}

std::string end_reason(JobState const& job, std::uint32_t restarts, std::string const& recent, std::string const& now) {
  if (is_requeued(job, restarts)) {
    return "requeued by Slurm";
  }
  if (job.reason == "TimeLimit" || job.state == "TIMEOUT") {
    return "time limit reached";
  }
  if (is_preempted(job, recent) || job.state == "PREEMPTED") {
    return "preempted" + grace_left(job, now);
  }
  if (job.state == "NODE_FAIL" || job.reason == "NodeDown") {
    return "a node failed";
  }
  if (job.state == "RUNNING") {
    return "Slurm still shows the job as running";
  }
  return job.state == "COMPLETING" || job.state == "CANCELLED" ? "cancelled"
                                                               : "Slurm shows the job as " + printable(job.state, 40);
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
  // Entries of this run or a later one are of another job: Slurm reuses job ids one day.
  std::erase_if(history.runs, [&](Run const& run) { return run.restarts >= facts.restarts; });
  bool const progress = facts.progress.value_or(lasted(facts));
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

History parse_history(std::string_view text) {
  History history;
  for (auto const& line : split(text, '\n')) {
    if (trim(line).empty()) {
      continue;
    }
    if (auto run = parse_run(line); run) {
      history.runs.push_back(*std::move(run));
    } else if (auto fault = parse_fault(line); fault) {
      history.faults.push_back(*std::move(fault));
    } else {
      history.garbage = true;
    }
  }
  keep_newest(history.runs);
  keep_newest(history.faults);
  return history;
}

std::string format_history(History history) {
  keep_newest(history.runs);
  keep_newest(history.faults);
  std::string text;
  for (auto const& run : history.runs) {
    text += "run " + std::to_string(run.restarts) + " " + run.how + (run.progress ? " progress\n" : " none\n");
  }
  for (auto const& fault : history.faults) {
    if (!is_node_name(fault.host)) {
      continue;
    }
    text += "node " + fault.host + " " + std::to_string(fault.look) + " " + printable(fault.what, kLongestWhat) + "\n";
  }
  return text;
}

std::string exclusion_advice(std::vector<NodeFault> const& faults, std::string const& job, JobState const* again) {
  std::map<std::string, std::vector<NodeFault>> by_host;
  for (auto const& fault : faults) {
    by_host[fault.host].push_back(fault);
  }
  std::string causes;
  std::string hosts;
  for (auto const& [host, its] : by_host) {
    if (its.size() < rendezvous::kFaultsEnough || !is_node_name(host)) {
      continue;
    }
    causes += (causes.empty() ? "" : ", ") + host + " was the cause of " + std::to_string(its.size()) +
              " failures (the last one " + printable(its.back().what, kLongestWhat) + ")";
    hosts += (hosts.empty() ? "" : ",") + host;
  }
  if (hosts.empty()) {
    return "";
  }
  std::string const kept_from = again != nullptr && !again->kept_from.empty() ? again->kept_from + "," : "";
  return causes + "; " +
         (again != nullptr ? "until the next run starts: scontrol update JobId=" + job + " ExcNodeList=" + kept_from
                           : "the next time: sbatch --exclude=") +
         hosts;
}

}  // namespace cxxrun::launcher::requeue
