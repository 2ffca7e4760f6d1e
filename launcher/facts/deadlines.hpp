// Deadlines: when the job's time is up, and what the workers are told before. Pure.
//
// The wall clock is read once, at start, to turn Slurm's end time into an instant of the monotonic clock; everything
// after that is a function of events and instants. The shell is end_watch.cpp; docs/use/signals.md says what follows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::launcher {

/// --checkpoint-signal SIGNAL@SECONDS.
struct CheckpointSignal {
  int signal = 0;
  Millis before{0};  ///< the end
  bool operator==(CheckpointSignal const&) const = default;
};
/// "USR1@120" or "SIGUSR1@120"; at most a year. A signal that nobody can catch is refused.
[[nodiscard]] Result<CheckpointSignal> parse_checkpoint_signal(std::string_view text);
/// Slurm's forms: MIN, MIN:SEC, H:M:S, D-H, D-H:M, D-H:M:S. Zero, UNLIMITED and INFINITE: no limit, which is 0 ms.
[[nodiscard]] Result<Millis> parse_time_limit(std::string_view text);

/// The lines of slurm.conf and cgroup.conf that decide how a job's end reaches cxxrun.
struct SlurmConf {
  Millis kill_wait{30'000};        ///< KillWait: from Slurm's SIGTERM to its SIGKILL; Slurm's own default is 30 s
  bool tracks_by_parents = false;  ///< proctrack/linuxproc
  bool signals_children = false;   ///< SignalChildrenProcesses, since Slurm 23.11
  /// Slurm's signals go to every descendant of a task, not to it alone.
  [[nodiscard]] bool signals_all() const { return tracks_by_parents || signals_children; }
  bool operator==(SlurmConf const&) const = default;
};

/// Of both files, one behind the other. Reads KEY=VALUE lines as Slurm does: keys in any case, '#' begins a comment.
/// Files named by Include are not read, and what is malformed or missing keeps Slurm's default. Total: any text has an
/// answer.
[[nodiscard]] SlurmConf parse_slurm_conf(std::string_view text);

/// When this job is over, as known at its start.
struct EndPlan {
  std::optional<TimePoint> end;
  bool ours = false;  ///< by --time-limit: nobody but us ends the job then
  std::optional<CheckpointSignal> checkpoint;
  std::vector<std::string> notes;  ///< options that have no effect here
};
/// In seconds since 1970, "" when not set.
struct SlurmTimes {
  std::string start;  ///< SLURM_JOB_START_TIME
  std::string end;    ///< SLURM_JOB_END_TIME; 0 and an end a year after the start or later: the job has no limit
};
/// The earlier of Slurm's end and that by `time_limit` (0: none), which counts from `start`. `unix_now` is the wall
/// clock at `start`.
[[nodiscard]] EndPlan plan_end(std::optional<CheckpointSignal> const& checkpoint, Millis time_limit,
                               SlurmTimes const& slurm, std::int64_t unix_now, TimePoint start);

namespace countdown {

/// What has happened so far. The signal goes once to each worker: to those of every generation that runs in the last
/// --checkpoint-signal seconds, because those of a restart have to save their work as well.
struct State {
  bool workers_run = false;
  bool ended = false;                  ///< the end was announced to the agent
  bool announced = false;              ///< the line about the signal was said
  bool passed = false;                 ///< the signal was passed to some generation
  std::size_t looks = 0;               ///< at this generation
  std::size_t missing = 0;             ///< workers of it that had not got the signal at the last look
  std::optional<TimePoint> next_look;  ///< nothing: not before the signal is due, or all workers have had it
};

struct WorkersRun {};  ///< a generation has been started
struct WorkersEnd {};  ///< none runs, or they are being stopped
/// The answer to Pass.
struct Passed {
  std::size_t missing = 0;  ///< workers that do not catch the signal (yet)
  std::size_t workers = 0;  ///< that run
};
struct Tick {};
using Event = std::variant<WorkersRun, WorkersEnd, Passed, Tick>;

/// Pass the signal to the workers that catch it and have not had it; answer with Passed.
struct Pass {
  int signal = 0;
  bool operator==(Pass const&) const = default;
};
/// The time is up: end the job as SIGTERM does.
struct EndJob {
  bool operator==(EndJob const&) const = default;
};
/// Send Tick then; replaces an earlier one.
struct WakeAt {
  TimePoint at;
  bool operator==(WakeAt const&) const = default;
};
using Action = std::variant<Pass, EndJob, WakeAt>;

using Step = BasicStep<State, Action>;
/// A worker that is still importing has no handler yet and would die of the signal: it is looked at again after 1, 2,
/// 5, 10, 20 and 40 s, then given up with one line.
[[nodiscard]] Step step(State const& state, Event const& event, TimePoint now, EndPlan const& plan);

}  // namespace countdown
}  // namespace cxxrun::launcher
