// The life of one agent: what it does about messages from the coordinator, ends of workers and signals. Pure.
//
// The shell (agent.cpp) makes Events, calls `step` (agent_fsm.cpp), performs the Actions in order and logs the reason.
// The table is in docs/design/agent.md; a test walks every (life, event) pair.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/workers/stop_order.hpp"
#include "rendezvous/following/follower.hpp"
#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/membership/leavers.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/ended.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::launcher::agent {

/// `lease`, `tie`: of the run; the default is a run without heartbeats.
struct Policy : rendezvous::follower::Policy {
  Millis shutdown_timeout{30'000};
  Millis end_timeout{30'000};  ///< the same when the whole job ends: under Slurm within its KillWait
  Millis restart_timeout{5'000};
  Millis kill_timeout{60'000};
  Millis farewell_timeout{5'000};  ///< after its own stop: how long to wait for the coordinator's final message
  Millis voting_timeout{30'000};   ///< the same as long as it answers, and may need this agent's vote
  bool health_check = false;       ///< this node is checked before it takes part in a generation
  Millis check_timeout{60'000};    ///< a check that runs longer has failed
  Millis check_holds{60'000};      ///< a passed check counts this long, and never beyond the start of workers
  bool slurm_signals_all = false;  ///< Slurm signals every worker itself
  Millis slurm_patience{1000};     ///< then: how much later than on another node its signal may come here
  bool added = false;  ///< by --join: as long as no generation has begun here, it may look for the job again
};

enum class Life {
  waiting,   ///< joined (or joining); no workers
  checking,  ///< has a generation; the health check runs
  ready,     ///< has a generation and acknowledged it; no workers yet
  running,   ///< workers run
  ended,     ///< all workers have ended by themselves; the coordinator knows
  stopping,  ///< workers are being stopped on the coordinator's order
  leaving,   ///< workers are being stopped because this agent ends (signal, coordinator lost)
  excluded,  ///< the health check failed: no workers any more; waits for the end of the job
  fenced,    ///< the lease ran out, or the coordinator dropped us: workers are being killed
  farewell,  ///< told to end; workers are gone; waiting for the coordinator's final message
  done,
};

struct State {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order of what it says
  Life life = Life::waiting;
  std::optional<rendezvous::Generation> generation;
  std::vector<rendezvous::WorkerExit> exits;  ///< of the generation, once all have ended
  std::vector<std::string> unkillable;
  rendezvous::StepTimes steps;  ///< of its workers in it
  bool lacks = false;           ///< others need not wait until those that have ended are started again
  bool joined = false;          ///< the coordinator knows us
  bool connected = true;
  int exit_code = 0;      ///< to leave with, once decided
  std::string last_line;  ///< to print at the end
  std::optional<TimePoint> deadline;
  std::optional<TimePoint> stays_until;  ///< farewell: `deadline` is never put off beyond
  std::optional<std::uint64_t> check;    ///< what runs is the health check, started for this generation
  bool check_overdue = false;            ///< it is being killed because it took too long
  std::optional<TimePoint> checked_at;   ///< when a check passed; nothing once workers have run since
  std::optional<TimePoint> owed_at;  ///< workers are being stopped but not signalled: do so unless Slurm did by then
  rendezvous::follower::State follower;
  std::string unfit;                    ///< why the health check failed
  bool workers = false;                 ///< started and not all reaped
  std::uint32_t living = 0;             ///< so many of the workers started last have not ended
  std::vector<std::uint32_t> left;      ///< ranks of those that have ended with 0; the coordinator is not told yet
  std::optional<TimePoint> left_due;    ///< it is to be told at
  bool killed = false;                  ///< they have had SIGKILL because of the lease
  bool parks = false;                   ///< the last order keeps workers that survive
  std::optional<std::uint64_t> parked;  ///< workers of that generation wait for the next one
  bool held = false;                    ///< Start came too late for its lease: workers start with the next one
  std::optional<TimePoint> lease;       ///< workers may run until then; nothing: none is needed
  std::optional<TimePoint> told;        ///< what HoldLease said last
  bool death_notice = false;            ///< WriteDeathNotice has recipients
  std::optional<TimePoint> frozen;      ///< workers are frozen, and killed then unless an answer comes
  Life frozen_in = Life::running;
  std::optional<TimePoint> armed;               ///< the timer
  std::optional<rendezvous::Successor> rejoin;  ///< once workers are gone
  std::string rejoin_why;
};

using rendezvous::follower::kFirstLink;
using rendezvous::follower::LinkId;

/// The other end has accepted us: as one who joins (first link, and after Rejoin), or as one who follows.
struct LinkUp {
  LinkId link = kFirstLink;
  std::string coordinator;  ///< its incarnation
  bool relayed = false;     ///< somebody between passes it on
};
/// The connection ended.
struct LinkDown {
  LinkId link = kFirstLink;
  std::string how;
  rendezvous::Ended ended = rendezvous::Ended::broken;
};
/// There was nobody to connect to, or nobody who coordinates. Of a link that was dialled to follow, or of Rejoin.
struct LinkFailed {
  LinkId link = kFirstLink;
  std::string why;
  bool refused = false;  ///< nobody listens there; false: no answer
};
struct FromLink {
  LinkId link = kFirstLink;
  rendezvous::ToAgent message;
};
struct BeatAnswered {
  LinkId link = kFirstLink;
  rendezvous::BeatAck ack;
};
/// The coordinator inside this agent has lost its authority, or its campaign came to nothing.
struct SteppedDown {
  std::string why;
  std::uint64_t campaign_id = 0;  ///< the last one it has heard of
};
/// One worker ended. With 0 and `hung`: it had, and others waited for it.
struct WorkerEnded {
  std::uint64_t number;
  rendezvous::WorkerExit exit;
};
/// Every worker and descendant is reaped; or the health check and its descendants. `waiting`: but for workers that
/// survive, and wait for the next generation. It comes once more, without exits, when those have been stopped.
struct GroupEnded {
  std::uint64_t number;
  std::vector<rendezvous::WorkerExit> exits;
  std::vector<std::string> unkillable;
  bool waiting = false;
  rendezvous::StepTimes steps = {};  ///< of theirs in this generation
  bool lacks = false;                ///< others need not wait until those that have ended are started again
};
/// What FillWorkers came to: all wait, or one has ended and is started with the next generation.
struct Filled {
  std::uint64_t number;
  bool whole = false;
};
/// A signal that means: end gracefully.
struct EndSignal {
  int signal;
  bool pass_on = true;  ///< false: the workers have had it already
  bool ctrl_c = false;  ///< from a terminal, where a second one means KillSignal
  std::string from{};   ///< "from pid 292 (kill), uid 1000"; "" when there is no more to say
};
/// End at once (second Ctrl-C).
struct KillSignal {};
/// Workers whose collectives have not moved for a while, or move again (progress_watch.hpp); or have given up others.
struct StoodStill {
  std::uint64_t number;
  std::vector<rendezvous::Standstill> workers;
  std::vector<rendezvous::Named> named = {};  ///< of those that have parked
};
struct Tick {};
using Event = std::variant<LinkUp, LinkDown, LinkFailed, FromLink, BeatAnswered, SteppedDown, WorkerEnded, GroupEnded,
                           EndSignal, KillSignal, StoodStill, Filled, Tick>;

using rendezvous::Learned;
using rendezvous::Withdraw;
using rendezvous::follower::Dial;
using rendezvous::follower::HangUp;
using rendezvous::follower::StartCampaign;
using rendezvous::follower::TellBeat;
using rendezvous::follower::TellLink;
/// Join as somebody new, with a new incarnation, whoever coordinates; the answer is LinkUp or LinkFailed of this link.
struct Rejoin {
  LinkId link = kFirstLink;
  rendezvous::Successor to;  ///< who told us so; address "" = as at the start
  bool once = false;         ///< there are others to ask: LinkFailed as soon as it does not coordinate
  std::string why = {};      ///< of an agent that was added: what came of its last call
  bool operator==(Rejoin const&) const = default;
};
/// Workers may run until then; the parent enforces it too.
/// Nothing: no lease is needed (no workers, no heartbeats).
struct HoldLease {
  std::optional<TimePoint> until;
  bool operator==(HoldLease const&) const = default;
};
/// What the parent is to say when this agent is dead and everything it started is reaped, and to whom.
struct WriteDeathNotice {
  rendezvous::Gone gone;
  /// The coordinator and those who may succeed it; empty: nothing to say. Port 0: the coordinator, where it was called.
  std::vector<rendezvous::Successor> recipients;
  bool operator==(WriteDeathNotice const&) const = default;
};
/// SIGSTOP to every worker and descendant; SIGCONT.
struct Freeze {
  bool operator==(Freeze const&) const = default;
};
struct Thaw {
  bool operator==(Thaw const&) const = default;
};

/// Those that wait are of it, and need no start.
struct StartWorkers {
  rendezvous::Generation generation;
  bool operator==(StartWorkers const&) const = default;
};
/// Start what is missing of this generation, which has ended: to wait for the next one that this node is of.
struct FillWorkers {
  rendezvous::Generation generation;
  bool operator==(FillWorkers const&) const = default;
};
/// Run the health check. It is stopped, and its end reported, like that of workers.
struct RunCheck {
  rendezvous::Generation generation;
  bool operator==(RunCheck const&) const = default;
};
struct StopWorkers {
  StopOrder order;
  bool operator==(StopWorkers const&) const = default;
};
/// Unless this worker has moved since the coordinator judged it: find out where it is, then SIGKILL. It fails. One that
/// others have named: unless it ends or parks by itself; one that has ended with 0 has failed.
struct KillWorker {
  std::uint32_t local_rank;
  rendezvous::Kill order;
  bool operator==(KillWorker const&) const = default;
};
/// This worker's failure was the first one of the job: its error file is to go to whoever has started cxxrun.
struct HandErrorFile {
  std::uint64_t number;
  rendezvous::WorkerExit exit;
  bool operator==(HandErrorFile const&) const = default;
};
struct ArmTimer {
  TimePoint at;
  bool operator==(ArmTimer const&) const = default;
};
/// Leave with this code, after printing the line if there is one.
struct Exit {
  int code;
  std::string line;
  bool operator==(Exit const&) const = default;
};
using Action = std::variant<TellLink, TellBeat, Dial, HangUp, Rejoin, StartCampaign, Withdraw, Learned, HoldLease,
                            WriteDeathNotice, StartWorkers, FillWorkers, RunCheck, StopWorkers, KillWorker,
                            HandErrorFile, Freeze, Thaw, ArmTimer, Exit>;

using Step = BasicStep<State, Action>;

[[nodiscard]] Step step(State state, Event const& event, TimePoint now, Policy const& policy);

}  // namespace cxxrun::launcher::agent
