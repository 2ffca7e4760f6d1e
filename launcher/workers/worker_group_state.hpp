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
#include "src/core/exit_status.hpp"
#include "src/core/time.hpp"
#include "src/core/turn.hpp"

namespace cxxrun::launcher {

enum class GroupPhase {
  idle,      ///< nothing was ever started
  running,   ///< workers run; no stop was ordered
  stopping,  ///< asked to stop; SIGKILL at the deadline
  killing,   ///< SIGKILL sent; at the deadline whoever is left is unkillable
  sweeping,  ///< every worker has ended or is parked, descendants are being stopped; SIGKILL at the deadline
  parked,    ///< the generation has ended, and workers that survive wait for the next one
  ended,     ///< nothing of the generation is left, or what is left was reported
};
[[nodiscard]] std::string_view phase_name(GroupPhase phase);

struct GroupWorker {
  /// parked: it holds nothing of its generation and waits. One that is to end nevertheless is alive again.
  enum class Life { pending, alive, parked, ended };
  std::uint32_t local_rank = 0;
  Life life = Life::pending;
  int pid = 0;
  bool survives = false;   ///< it can wait for another generation
  std::uint64_t sent = 0;  ///< bit N: signal N was sent to it as part of a stop
  ExitStatus status;       ///< valid when ended
  bool ours = false;       ///< valid when ended: explained by our own stop
  bool operator==(GroupWorker const&) const = default;
};

struct GroupState {
  GroupPhase phase = GroupPhase::idle;
  std::vector<GroupWorker> workers;  ///< index = local rank
  bool stop_ordered = false;
  bool parks = false;           ///< by that order; those that survive are not signalled
  bool reported = false;        ///< the generation's end; what ends later is no part of it
  int signal = 15;              ///< what escaped descendants are asked with
  bool silent = false;          ///< the order said that somebody else has signalled
  Millis kill_timeout{60'000};  ///< until an order says otherwise
  std::optional<TimePoint> deadline;
  bool operator==(GroupState const&) const = default;
};

struct GroupPolicy {
  Millis leftover_grace{1000};  ///< from SIGTERM to SIGKILL for descendants left at a natural end
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
};
struct StopOrdered {
  StopOrder order;
};
/// A worker says that it can wait for another generation.
struct Survives {
  std::uint32_t local_rank = 0;
};
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
                                KillOrdered, DescendantsFound, DescendantsGone, Tick>;

// Actions.
/// Signal the process group of one worker.
struct SignalGroup {
  std::uint32_t local_rank = 0;
  int signal = 0;
  bool operator==(SignalGroup const&) const = default;
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
/// Signal every child that is no worker, and its process group; each group once, SIGKILL always. Those of workers that
/// are kept are not meant (keeps()).
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
using GroupAction = std::variant<SignalGroup, TellOver, TellEnds, ResumeWorker, EndSurplus, SignalDescendants, ArmTimer,
                                 ReportExit, ReportUnkillable, ReportEnded>;

using GroupStep = BasicStep<GroupState, GroupAction>;

/// Whether this worker, and what it has started, is to outlive the stop that is under way.
[[nodiscard]] bool keeps(GroupState const& state, GroupWorker const& worker);

/// Answers every event in every phase; an event that means nothing there changes nothing and is said.
[[nodiscard]] GroupStep step(GroupState state, GroupEvent const& event, TimePoint now, GroupPolicy const& policy = {});

}  // namespace cxxrun::launcher
