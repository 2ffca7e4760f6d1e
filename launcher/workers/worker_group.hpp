// The life of one generation's workers on one node, as a state machine. Pure.
//
// supervisor.cpp makes the events and performs the actions in order. docs/design/supervision.md has the table of
// phases and events; a test compares it with step().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "launcher/workers/stop_order.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::launcher {

enum class GroupPhase {
  idle,      ///< no generation has been started
  running,   ///< workers run; no stop was ordered
  stopping,  ///< workers were asked to stop, some are left; SIGKILL at the deadline
  killing,   ///< SIGKILL was sent; processes left at the deadline are reported as unkillable
  sweeping,  ///< all workers have ended or parked; leftover processes are being stopped; SIGKILL at the deadline
  parked,    ///< the generation has ended; surviving workers wait for the next one
  ended,     ///< nothing of the generation is left, except unkillable processes that were reported
};
[[nodiscard]] std::string_view phase_name(GroupPhase phase);

struct GroupWorker {
  /// parked: it holds nothing of its generation and waits for the next. When it is to end after all, it is alive again.
  /// outlived: its process, a wrapper, has ended; the program behind it still runs and may be saving.
  enum class Life { pending, alive, parked, outlived, ended };
  std::uint32_t local_rank = 0;
  Life life = Life::pending;
  int pid = 0;
  bool survives = false;   ///< it can wait for another generation
  bool shrinks = false;    ///< after its end other nodes may go on without this node
  std::uint64_t sent = 0;  ///< bit N: it got signal N as part of a stop, from us or from Slurm
  ExitStatus status;       ///< valid when outlived or ended
  bool ours = false;       ///< our own stop explains `status`
  /// The process itself runs, or the program that it wrapped.
  [[nodiscard]] bool runs() const { return life == Life::alive || life == Life::outlived; }
  bool operator==(GroupWorker const&) const = default;
};

struct GroupState {
  GroupPhase phase = GroupPhase::idle;
  std::vector<GroupWorker> workers;  ///< index = local rank
  bool stop_ordered = false;
  bool parks = false;           ///< the order keeps surviving workers: they are told instead of signalled
  bool reported = false;        ///< the end of the generation was reported; later exits are not part of it
  bool fills = false;           ///< phase parked: ended workers are being started again, to wait like the others
  int signal = 15;              ///< of the stop; without one, for leftover processes
  bool silent = false;          ///< the order sent no signal, because Slurm had sent one
  Millis kill_timeout{60'000};  ///< default for a generation without an order
  std::optional<TimePoint> deadline;
  bool operator==(GroupState const&) const = default;
};

struct GroupPolicy {
  Millis leftover_grace{500};  ///< from the last worker's end to SIGKILL for leftover processes
};

// Events.
struct Begin {
  std::uint32_t workers = 0;
};
struct Started {
  std::uint32_t local_rank = 0;
  int pid = 0;
};
struct StartFailed {
  std::uint32_t local_rank = 0;
  int error = 0;
};
struct Exited {
  std::uint32_t local_rank = 0;
  ExitStatus status;
  bool died_before_kill = false;  ///< it was already dying when we first sent it SIGKILL
  bool outlived = false;          ///< it was a wrapper, and the program behind it still runs
};
/// The program behind an outlived wrapper has ended.
struct ProgramEnded {
  std::uint32_t local_rank = 0;
};
struct StopOrdered {
  StopOrder order;
};
/// A worker has registered as able to wait for another generation.
struct Survives {
  std::uint32_t local_rank = 0;
  bool shrinks = false;
};
/// The next generation runs on other nodes: start the workers that have ended here, to wait for the one after.
struct Fill {};
/// A worker says that it holds nothing of this generation any more.
struct HasParked {
  std::uint32_t local_rank = 0;
};
/// A parked worker could not be told of the new generation: a new process takes its place.
struct ResumeFailed {
  std::uint32_t local_rank = 0;
};
/// Kill this worker alone, at once. Its death counts as an ordinary failure.
struct KillOrdered {
  std::uint32_t local_rank = 0;
};
struct DescendantsFound {};  ///< this process has children that are not workers and are not spared
struct DescendantsGone {};   ///< it has none, and no worker runs
struct Tick {};
using GroupEvent = std::variant<Begin, Started, StartFailed, Exited, StopOrdered, Survives, HasParked, ResumeFailed,
                                KillOrdered, ProgramEnded, DescendantsFound, DescendantsGone, Fill, Tick>;

// Actions.
/// Ask one worker to end: the signal goes to its program, not to the program's helpers (worker_processes.hpp).
struct AskWorker {
  std::uint32_t local_rank = 0;
  int signal = 0;
  bool operator==(AskWorker const&) const = default;
};
/// SIGKILL to the process group of one worker.
struct KillGroup {
  std::uint32_t local_rank = 0;
  bool operator==(KillGroup const&) const = default;
};
/// Tell surviving workers that the generation is over.
struct TellOver {
  bool operator==(TellOver const&) const = default;
};
/// Tell all workers that there will be no other generation.
struct TellEnds {
  bool operator==(TellEnds const&) const = default;
};
/// Tell a parked worker of this generation.
struct ResumeWorker {
  std::uint32_t local_rank = 0;
  bool operator==(ResumeWorker const&) const = default;
};
/// SIGKILL to a process of the previous generation that the new one cannot resume: its local rank does not exist any
/// more, or it had not parked yet.
struct EndSurplus {
  int pid = 0;
  bool operator==(EndSurplus const&) const = default;
};
/// Signal every child that is not a worker and not spared (spares()), and its process group. A group gets the same
/// signal once; SIGKILL is repeated.
struct SignalDescendants {
  int signal = 0;
  bool operator==(SignalDescendants const&) const = default;
};
/// Send Tick at that time. Replaces an earlier timer.
struct ArmTimer {
  TimePoint at;
  bool operator==(ArmTimer const&) const = default;
};
struct ReportExit {
  std::uint32_t local_rank = 0;
  bool operator==(ReportExit const&) const = default;
};
/// Name the processes that survived SIGKILL. ReportEnded follows.
struct ReportUnkillable {
  bool operator==(ReportUnkillable const&) const = default;
};
struct ReportEnded {
  bool operator==(ReportEnded const&) const = default;
};
/// The end of a Fill. whole: all workers wait. Else one has ended, and the missing ones start with the next generation.
struct ReportFilled {
  bool whole = false;
  bool operator==(ReportFilled const&) const = default;
};
using GroupAction = std::variant<AskWorker, KillGroup, TellOver, TellEnds, ResumeWorker, EndSurplus, SignalDescendants,
                                 ArmTimer, ReportExit, ReportUnkillable, ReportEnded, ReportFilled>;

using GroupStep = BasicStep<GroupState, GroupAction>;

/// The process of a worker that is alive and not parked; 0: there is none.
[[nodiscard]] int worker_pid(GroupState const& state, std::uint32_t local_rank);
/// Whether the stop under way keeps this worker and the processes it has started.
[[nodiscard]] bool keeps(GroupState const& state, GroupWorker const& worker);
/// Whether some workers have ended and every worker allows the other nodes to go on without them.
[[nodiscard]] bool lacks(GroupState const& state);
/// Whether a process of that session that is not a worker is left alone for now. It is when its worker is kept, or has
/// not ended during a stop; a process of no known worker is while the phase is stopping.
[[nodiscard]] bool spares(GroupState const& state, int session);

/// Answers every event in every phase. An event that does not apply changes nothing and is logged.
[[nodiscard]] GroupStep step(GroupState state, GroupEvent const& event, TimePoint now, GroupPolicy const& policy = {});

}  // namespace cxxrun::launcher
