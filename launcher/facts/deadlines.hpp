// Deadlines: when the job's time is up, and when workers get --checkpoint-signal before that. Pure.
//
// The wall clock is read once, at start, to turn Slurm's end time into an instant of the steady clock. Everything after
// that depends on events and instants alone. All nodes of a job have one instant, that of the node that coordinates
// first: its agent tells its coordinator (JobEnd), which tells all members of each generation. The shell is
// launcher/job_end/end_watch.cpp. docs/use/signals.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/values/job_end.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::launcher {

/// --checkpoint-signal SIGNAL@SECONDS.
struct CheckpointSignal {
  int signal = 0;
  Millis before{0};  ///< time before the end
  bool operator==(CheckpointSignal const&) const = default;
};
/// "USR1@120" or "SIGUSR1@120"; at most a year. Refuses SIGKILL and SIGSTOP, which no program can catch.
[[nodiscard]] Result<CheckpointSignal> parse_checkpoint_signal(std::string_view text);
/// Slurm's forms: MIN, MIN:SEC, H:M:S, D-H, D-H:M, D-H:M:S. Zero, UNLIMITED and INFINITE: no limit, which is 0 ms.
[[nodiscard]] Result<Millis> parse_time_limit(std::string_view text);

/// The settings of slurm.conf and cgroup.conf that decide how the end of a job reaches cxxrun.
struct SlurmConf {
  Millis kill_wait{30'000};        ///< KillWait: from Slurm's SIGTERM to its SIGKILL; 30 s is Slurm's default
  bool tracks_by_parents = false;  ///< proctrack/linuxproc
  bool signals_children = false;   ///< SignalChildrenProcesses, since Slurm 23.11
  /// Whether Slurm signals every descendant of a task instead of the task alone.
  [[nodiscard]] bool signals_all() const { return tracks_by_parents || signals_children; }
  bool operator==(SlurmConf const&) const = default;
};

/// `text`: both files, concatenated. Reads KEY=VALUE lines as Slurm does: keys in any case, '#' starts a comment.
/// Ignores Include. A missing or malformed setting keeps Slurm's default. Total.
[[nodiscard]] SlurmConf parse_slurm_conf(std::string_view text);

/// When this job ends: as known at the start of this agent, until its coordinator says more (adopt()).
struct EndPlan {
  std::optional<TimePoint> end;
  bool ours = false;  ///< the end is that of --time-limit, so cxxrun itself ends the job
  std::optional<CheckpointSignal> checkpoint;
  bool late = false;                      ///< its signal was due before the start
  std::optional<rendezvous::JobEnd> own;  ///< this node's end, if it does not last as long as the job
  bool tells = false;                     ///< `end` is that of the job
  std::vector<std::string> notes;         ///< options that have no effect here
};
/// Seconds since 1970 as text; "" if not set.
struct SlurmTimes {
  std::string start;  ///< SLURM_JOB_START_TIME
  std::string end;    ///< SLURM_JOB_END_TIME; 0, or a year or more after the start, stands for no limit
};
/// The end is the earlier of Slurm's and `start` + `time_limit` (0: no limit). `unix_now` is the wall clock at `start`.
/// `added`: with --join, maybe from another Slurm job; its end is that of this node alone.
[[nodiscard]] EndPlan plan_end(std::optional<CheckpointSignal> const& checkpoint, Millis time_limit,
                               SlurmTimes const& slurm, std::int64_t unix_now, TimePoint start, bool added = false);
/// What the agent tells the coordinator when it joins.
[[nodiscard]] std::optional<rendezvous::JobEnd> job_end(EndPlan const& plan);
/// How much two nodes' wall clocks, and so their accounts of one end, may differ.
inline constexpr Millis kClocksDiffer{10'000};
/// The plan once the coordinator has said when the job ends. Its instant counts instead of this node's, also instead of
/// Slurm's end, which each node reads off its own clock. But a node that is taken away clearly before that has the end
/// of its own: Slurm kills at its own time.
[[nodiscard]] EndPlan adopt(EndPlan plan, std::optional<rendezvous::JobEnd> const& told);

namespace countdown {

/// The signal goes once to each worker of every generation that runs within the last --checkpoint-signal seconds:
/// workers of a restart have to save their work as well.
struct State {
  bool workers_run = false;
  bool ended = false;                  ///< EndJob was issued
  bool announced = false;              ///< the signal was logged
  bool passed = false;                 ///< the signal was passed to some generation
  std::size_t looks = 0;               ///< retries for the current generation
  std::size_t missing = 0;             ///< workers of it that had not received the signal at the last attempt
  std::optional<TimePoint> next_look;  ///< next attempt; empty if none is needed any more
};

struct WorkersRun {};  ///< a generation was started
struct WorkersEnd {};  ///< its workers have ended or are being stopped
/// The answer to Pass.
struct Passed {
  std::size_t missing = 0;  ///< workers that do not catch the signal (yet)
  std::size_t workers = 0;  ///< running workers
};
struct Tick {};
using Event = std::variant<WorkersRun, WorkersEnd, Passed, Tick>;

/// Send the signal to the workers that catch it and have not received it; answer with Passed.
struct Pass {
  int signal = 0;
  bool operator==(Pass const&) const = default;
};
/// The time is up: end the job as on SIGTERM.
struct EndJob {
  bool operator==(EndJob const&) const = default;
};
/// Send Tick at that time; replaces an earlier request.
struct WakeAt {
  TimePoint at;
  bool operator==(WakeAt const&) const = default;
};
using Action = std::variant<Pass, EndJob, WakeAt>;

using Step = BasicStep<State, Action>;
/// A worker that is still importing has no handler yet and would die of the signal. It is tried again after 1, 2, 5,
/// 10, 20 and 40 s, then given up with a log line.
[[nodiscard]] Step step(State const& state, Event const& event, TimePoint now, EndPlan const& plan);

}  // namespace countdown
}  // namespace cxxrun::launcher
