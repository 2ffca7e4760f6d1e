// The life of one generation's workers on one node, as a pure state machine.
//
// No clock, process or log in it: supervisor.cpp turns what happens into events and performs the actions in order.
// The table of states and events is docs/design/supervision.md; a test compares it with step().
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
  idle,      ///< nothing was ever started
  running,   ///< workers run; no stop was ordered
  stopping,  ///< asked to stop, some have not ended; SIGKILL at the deadline
  killing,   ///< SIGKILL sent; at the deadline whoever is left is unkillable
  sweeping,  ///< every worker has ended or is parked, what they have left is being stopped; SIGKILL at the deadline
  parked,    ///< the generation has ended, and workers that survive wait for the next one
  ended,     ///< nothing of the generation is left, or what is left was reported
};
[[nodiscard]] std::string_view phase_name(GroupPhase phase);

struct GroupWorker {
  /// parked: it holds nothing of its generation and waits. One that is to end nevertheless is alive again.
  /// outlived: its process was a wrapper and has ended, and the program behind it may be saving.
  enum class Life { pending, alive, parked, outlived, ended };
  std::uint32_t local_rank = 0;
  Life life = Life::pending;
  int pid = 0;
  bool survives = false;   ///< it can wait for another generation
  bool shrinks = false;    ///< and others need not wait for it
  std::uint64_t sent = 0;  ///< bit N: signal N was sent to it as part of a stop
  ExitStatus status;       ///< valid when outlived or ended
  bool ours = false;       ///< the same: explained by our own stop
  /// Itself, or the program that it was a wrapper of.
  [[nodiscard]] bool runs() const { return life == Life::alive || life == Life::outlived; }
  bool operator==(GroupWorker const&) const = default;
};

struct GroupState {
  GroupPhase phase = GroupPhase::idle;
  std::vector<GroupWorker> workers;  ///< index = local rank
  bool stop_ordered = false;
  bool parks = false;           ///< by that order; those that survive are not signalled
  bool reported = false;        ///< the generation's end; what ends later is no part of it
  bool fills = false;           ///< parked: those that are missing are being started, to wait like the others
  int signal = 15;              ///< what is left is asked with
  bool silent = false;          ///< the order said that somebody else has signalled
  Millis kill_timeout{60'000};  ///< until an order says otherwise
  std::optional<TimePoint> deadline;
  bool operator==(GroupState const&) const = default;
};

struct GroupPolicy {
  Millis leftover_grace{500};  ///< from the last worker's end to SIGKILL for what workers have left
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
  bool died_before_kill = false;  ///< it was dying already when we first sent it SIGKILL
  bool outlived = false;          ///< it was a wrapper, and the program behind it runs
};
/// The program behind a wrapper that has ended.
struct ProgramEnded {
  std::uint32_t local_rank = 0;
};
struct StopOrdered {
  StopOrder order;
};
/// A worker says that it can wait for another generation.
struct Survives {
  std::uint32_t local_rank = 0;
  bool shrinks = false;
};
/// The next generation runs on other nodes: those that are missing here are to be started, and wait for the one after.
struct Fill {};
/// It says that it holds nothing of this generation any more.
struct HasParked {
  std::uint32_t local_rank = 0;
};
/// It could not be told of the generation that has begun: another process is to take its place.
struct ResumeFailed {
  std::uint32_t local_rank = 0;
};
/// This worker alone, and at once: its death is a failure like any other.
struct KillOrdered {
  std::uint32_t local_rank = 0;
};
struct DescendantsFound {};  ///< children that are no workers exist
struct DescendantsGone {};   ///< this process has no children at all that are not workers
struct Tick {};
using GroupEvent = std::variant<Begin, Started, StartFailed, Exited, StopOrdered, Survives, HasParked, ResumeFailed,
                                KillOrdered, ProgramEnded, DescendantsFound, DescendantsGone, Fill, Tick>;

// Actions.
/// Ask one worker to end: its program, not its helpers (whom_to_ask.hpp).
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
/// Tell those that survive that the generation is over.
struct TellOver {
  bool operator==(TellOver const&) const = default;
};
/// Tell all that nobody need wait for another generation.
struct TellEnds {
  bool operator==(TellEnds const&) const = default;
};
/// It waits: tell it of this generation.
struct ResumeWorker {
  std::uint32_t local_rank = 0;
  bool operator==(ResumeWorker const&) const = default;
};
/// SIGKILL to one that waited at a place that there is no more.
struct EndSurplus {
  int pid = 0;
  bool operator==(EndSurplus const&) const = default;
};
/// Signal every child that is no worker and that nobody needs any more (spares()), and its process group; each group
/// once, SIGKILL always.
struct SignalDescendants {
  int signal = 0;
  bool operator==(SignalDescendants const&) const = default;
};
/// Send Tick at that time; replaces an earlier one.
struct ArmTimer {
  TimePoint at;
  bool operator==(ArmTimer const&) const = default;
};
struct ReportExit {
  std::uint32_t local_rank = 0;
  bool operator==(ReportExit const&) const = default;
};
/// Name the processes that are still there. ReportEnded follows.
struct ReportUnkillable {
  bool operator==(ReportUnkillable const&) const = default;
};
struct ReportEnded {
  bool operator==(ReportEnded const&) const = default;
};
/// All wait; or one has ended, and whoever is missing is started with the next generation.
struct ReportFilled {
  bool whole = false;
  bool operator==(ReportFilled const&) const = default;
};
using GroupAction = std::variant<AskWorker, KillGroup, TellOver, TellEnds, ResumeWorker, EndSurplus, SignalDescendants,
                                 ArmTimer, ReportExit, ReportUnkillable, ReportEnded, ReportFilled>;

using GroupStep = BasicStep<GroupState, GroupAction>;

/// Whether this worker, and what it has started, is to outlive the stop that is under way.
[[nodiscard]] bool keeps(GroupState const& state, GroupWorker const& worker);
/// The generation has ended with fewer workers than the next one takes, and nobody is to wait for those that are
/// missing.
[[nodiscard]] bool lacks(GroupState const& state);
/// Whether what runs in that session, without being a worker, is left alone for now: it belongs to a worker that is
/// kept or has not ended; or, as long as one has not, to nobody that is known.
[[nodiscard]] bool spares(GroupState const& state, int session);

/// Answers every event in every phase; an event that means nothing there changes nothing and is said.
[[nodiscard]] GroupStep step(GroupState state, GroupEvent const& event, TimePoint now, GroupPolicy const& policy = {});

}  // namespace cxxrun::launcher
