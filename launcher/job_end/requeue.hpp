// Requeue: whether the Slurm job is to run again, decided from slurmctld's own state of it. Pure.
//
// What Slurm says in which case was measured (docs/use/requeue.md). While a job is COMPLETING, as it is from the first
// SIGTERM on, its state hides whether it was cancelled, timed out or was preempted; Reason, PreemptTime and Restarts
// tell them apart, and a user's scancel is what has none of the three.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher::requeue {

/// What the coordinator's agent knows about the end, before it asks Slurm.
enum class Ended {
  success,
  stopped,     ///< by SIGTERM: time limit, preemption, scancel, somebody's kill
  limit,       ///< by our own --time-limit
  nodes_lost,  ///< too few nodes came or stayed
  unkillable,
  checkpointed,  ///< a worker failed after the checkpoint signal was passed
  otherwise,     ///< the job's own doing, or the user's (Ctrl-C): never a reason
};
[[nodiscard]] Ended how_it_ended(rendezvous::Verdict const& verdict, bool checkpoint_passed, bool limit_reached);
[[nodiscard]] char const* name_of(Ended how);
/// Whether it is worth asking Slurm.
[[nodiscard]] bool may_run_again(Ended how);

/// The job's name for scontrol: "ARRAYJOB_TASK" for a task of an array (the id of an array's last task means the whole
/// array), else SLURM_JOB_ID. "" outside Slurm.
[[nodiscard]] std::string job_name(Environment const& environment);

/// Some fields of one line of `scontrol show job -o`.
struct JobState {
  std::string state;   ///< RUNNING, COMPLETING, CANCELLED, …
  std::string reason;  ///< None, TimeLimit, …
  std::uint32_t restarts = 0;
  bool requeue = true;       ///< false: sbatch --no-requeue, or JobRequeue=0
  bool batch = true;         ///< false: started by srun or salloc, which cannot be queued again
  std::string preempted_at;  ///< PreemptTime, as Slurm writes it; "" = never
  bool het = false;          ///< part of a heterogeneous job
  std::string ends_at{};     ///< EndTime, as Slurm writes it: a time or "Unknown"
  std::string kept_from{};   ///< ExcNodeList; "" = none
  bool operator==(JobState const&) const = default;
};
/// Errc::protocol when the text is not one job, or lacks its state.
[[nodiscard]] Result<JobState> parse_job_state(std::string_view text);

/// Slurm has queued it again since the run with that SLURM_RESTART_COUNT began.
[[nodiscard]] bool is_requeued(JobState const& job, std::uint32_t restarts);
/// It was preempted, and not before `recent`: a job that was suspended for another one and went on keeps its
/// PreemptTime. Slurm's times compare as text.
[[nodiscard]] bool is_preempted(JobState const& job, std::string const& recent);

/// One earlier run of the job, as kept in the history file.
struct Run {
  std::uint32_t restarts = 0;  ///< SLURM_RESTART_COUNT of the run
  std::string how;             ///< name_of(Ended)
  bool progress = false;
  bool operator==(Run const&) const = default;
};
struct History {
  std::vector<Run> runs;                           ///< oldest first, at most kMostRuns
  bool garbage = false;                            ///< some line was none of ours and was ignored
  std::vector<rendezvous::NodeFault> faults = {};  ///< of its nodes, oldest first, at most kMostRuns
};
inline constexpr std::size_t kMostRuns = 100;
/// Lines "run RESTARTS HOW progress|none" and "node HOST LOOK WHAT". Total.
[[nodiscard]] History parse_history(std::string_view text);
[[nodiscard]] std::string format_history(History history);

/// This run.
struct Facts {
  Ended how = Ended::otherwise;
  std::uint32_t restarts = 0;    ///< SLURM_RESTART_COUNT
  std::optional<bool> progress;  ///< whether --progress-path changed; nothing without the option
  std::string recent{};  ///< as Slurm writes times: a preemption before this was another one, which the job survived
  std::vector<rendezvous::NodeFault> faults{};  ///< of the nodes, in earlier runs too
};
struct Decision {
  bool requeue = false;
  std::string line;              ///< why, for the user; never empty
  std::optional<int> exit_code;  ///< instead of the verdict's
  History history;               ///< to be kept for the next run
};
/// `most`: --max-requeues, the requeues in a row without progress.
[[nodiscard]] Decision decide(Facts const& facts, Result<JobState> const& job, std::uint32_t most, History history);
/// Names the nodes that were to blame twice or more, and what to type so that the next run does without them: `again`
/// is the job, when Slurm runs it again, as it would be without this advice. "" when there are none.
[[nodiscard]] std::string exclusion_advice(std::vector<rendezvous::NodeFault> const& faults, std::string const& job,
                                           JobState const* again);
/// The same when the history could not be kept: then Slurm's own count of runs is the limit.
[[nodiscard]] Decision without_history(Decision decision, Facts const& facts, std::uint32_t most);

}  // namespace cxxrun::launcher::requeue
