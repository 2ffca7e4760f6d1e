// Requeue: why Slurm has ended the job, and whether the job runs again, decided from slurmctld's state of it. Pure.
//
// What Slurm shows in which case was measured (docs/use/requeue.md). From the first SIGTERM on the state is COMPLETING,
// which hides whether the job was cancelled, timed out or was preempted. Reason, PreemptTime and Restarts tell these
// apart; a user's scancel sets none of the three.
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

/// How the job ended, as far as the coordinator's agent knows before it asks Slurm.
enum class Ended {
  success,
  stopped,     ///< by SIGTERM: time limit, preemption, scancel, or a kill by hand
  limit,       ///< by our own --time-limit
  nodes_lost,  ///< too few nodes came or stayed
  unkillable,
  checkpointed,  ///< a worker failed after the checkpoint signal was passed
  otherwise,     ///< by the job itself or the user (Ctrl-C): never a reason for a requeue
};
[[nodiscard]] Ended how_it_ended(rendezvous::Verdict const& verdict, bool checkpoint_passed, bool limit_reached);
[[nodiscard]] char const* name_of(Ended how);
/// Whether it is worth asking Slurm.
[[nodiscard]] bool may_run_again(Ended how);

/// The job's name for scontrol: "ARRAYJOB_TASK" for a task of an array (SLURM_JOB_ID of the last task would mean the
/// whole array), else SLURM_JOB_ID. "" outside Slurm.
[[nodiscard]] std::string job_name(Environment const& environment);

/// Some fields of `scontrol show job -o`.
struct JobState {
  std::string state;   ///< RUNNING, COMPLETING, CANCELLED, …
  std::string reason;  ///< None, TimeLimit, …
  std::uint32_t restarts = 0;
  bool requeue = true;       ///< false: sbatch --no-requeue, or JobRequeue=0
  bool batch = true;         ///< false: started by srun or salloc, so Slurm cannot requeue it
  std::string preempted_at;  ///< PreemptTime, as Slurm writes it; "" = never
  bool het = false;          ///< part of a heterogeneous job
  std::string ends_at{};     ///< EndTime, as Slurm writes it: a time or "Unknown"
  std::string kept_from{};   ///< ExcNodeList; "" = none
  bool operator==(JobState const&) const = default;
};
/// Errc::protocol when the text is not one job, or lacks its state.
[[nodiscard]] Result<JobState> parse_job_state(std::string_view text);

/// Why Slurm has told the job to end: "time limit reached", "cancelled", "requeued by Slurm", "preempted, about 40 s
/// left", …, for a job that SIGTERM has ended. docs/use/signals.md has them. `restarts`: SLURM_RESTART_COUNT. `recent`,
/// `now`: as Slurm writes times.
[[nodiscard]] std::string end_reason(JobState const& job, std::uint32_t restarts, std::string const& recent,
                                     std::string const& now);

/// One run of the job in the history file.
struct Run {
  std::uint32_t restarts = 0;  ///< SLURM_RESTART_COUNT of the run
  std::string how;             ///< name_of(Ended)
  bool progress = false;
  bool operator==(Run const&) const = default;
};
struct History {
  std::vector<Run> runs;                           ///< oldest first, at most kMostRuns
  bool garbage = false;                            ///< a line was invalid and was ignored
  std::vector<rendezvous::NodeFault> faults = {};  ///< of the job's nodes, oldest first, at most kMostRuns
};
inline constexpr std::size_t kMostRuns = 100;
/// Lines "run RESTARTS HOW progress|none" and "node HOST LOOK WHAT". Total.
[[nodiscard]] History parse_history(std::string_view text);
[[nodiscard]] std::string format_history(History history);

/// What is known about this run.
struct Facts {
  Ended how = Ended::otherwise;
  std::uint32_t restarts = 0;                   ///< SLURM_RESTART_COUNT
  std::optional<bool> progress;                 ///< whether --progress-path has changed; nothing without the option
  std::string recent{};                         ///< as Slurm writes times: the job survived preemptions before this
  std::vector<rendezvous::NodeFault> faults{};  ///< of the nodes, also of earlier runs
  bool late = false;                            ///< the checkpoint signal was due before the run began
};
struct Decision {
  bool requeue = false;
  std::string line;              ///< why or why not, for the user; never empty
  std::optional<int> exit_code;  ///< replaces the verdict's exit code
  History history;               ///< keep it for the next run
};
/// Whether to requeue the job. `most`: --max-requeues, the limit of requeues in a row without progress.
[[nodiscard]] Decision decide(Facts const& facts, Result<JobState> const& job, std::uint32_t most, History history);
/// Names the nodes that caused two or more failures, and the command that excludes them from the next run; "" if there
/// are none. `again`: the state of the job if Slurm runs it again, else nullptr.
[[nodiscard]] std::string exclusion_advice(std::vector<rendezvous::NodeFault> const& faults, std::string const& job,
                                           JobState const* again);
/// The decision if the history cannot be kept: then Slurm's own count of runs is limited.
[[nodiscard]] Decision without_history(Decision decision, Facts const& facts, std::uint32_t most);

}  // namespace cxxrun::launcher::requeue
