// The state machine of one agent: how it answers messages of the coordinator, ends of workers, signals and its timer.
// Pure.
//
// The shell (launcher/agent/agent.cpp) makes Events, calls step() (agent_fsm.cpp), performs the Actions in order and
// logs the lines. docs/design/agent.md has the table of it; a test walks every pair of life and event.
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
#include "rendezvous/values/connection.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::launcher::agent {

/// `lease` and `tie` are those of the run; by default it has no heartbeats.
struct Policy : rendezvous::follower::Policy {
  Millis shutdown_timeout{30'000};
  Millis end_timeout{30'000};  ///< instead of shutdown_timeout when the whole job ends; under Slurm within KillWait
  Millis restart_timeout{5'000};
  Millis kill_timeout{60'000};
  Millis farewell_timeout{5'000};  ///< how long an agent that has stopped waits for the coordinator's final message
  Millis voting_timeout{30'000};   ///< instead, while the coordinator answers and may need this agent's vote
  bool health_check = false;       ///< this node is checked before it takes part in a generation
  Millis check_timeout{60'000};    ///< a check that runs longer has failed
  Millis check_holds{60'000};      ///< a passed check counts this long, and never beyond the start of workers
  bool slurm_signals_all = false;  ///< Slurm signals every worker itself
  Millis slurm_patience{1000};     ///< how much later than on another node Slurm's signal may come here
  bool added = false;              ///< by --join: until a generation has begun here, it may look for the job again
};

enum class Life {
  waiting,   ///< joined (or joining); no workers
  checking,  ///< has a generation; the health check runs
  ready,     ///< has a generation and acknowledged it; no workers yet
  running,   ///< workers run
  ended,     ///< all workers have ended by themselves; the coordinator knows
  stopping,  ///< workers are being stopped on the coordinator's order
  leaving,   ///< workers are being stopped because this agent ends (signal, coordinator lost)
  excluded,  ///< the health check failed, or the node was drained: runs no workers, waits for the end of the job
  fenced,    ///< the lease has expired, or the coordinator dropped us: workers are being killed
  farewell,  ///< told to end; workers are gone; waits for the coordinator's final message
  done,
};

struct State {  // NOLINT(clang-analyzer-optin.performance.Padding): ordered by meaning
  Life life = Life::waiting;

  // The coordinator, and what it was told.
  bool joined = false;  ///< the coordinator knows us
  bool connected = true;
  rendezvous::follower::State follower;
  std::optional<rendezvous::Successor> rejoin;  ///< where to join again once workers are gone
  std::string rejoin_why;

  // The generation, and what is left of it.
  std::optional<rendezvous::Generation> generation;
  std::vector<rendezvous::WorkerExit> exits;  ///< of its workers, once all have ended
  std::vector<std::string> unkillable;
  rendezvous::StepTimes steps;  ///< of its workers
  bool lacks = false;           ///< other nodes need not wait until the workers that have ended are restarted

  // Its workers.
  bool workers = false;                 ///< started and not all reaped
  std::uint32_t living = 0;             ///< how many of the workers started last have not ended
  std::vector<std::uint32_t> left;      ///< ranks that have ended with 0, which the coordinator is not told yet
  std::optional<TimePoint> left_due;    ///< when it is told of them
  bool parks = false;                   ///< the last order to stop keeps workers that survive
  std::optional<std::uint64_t> parked;  ///< workers of this generation wait for the next one
  std::optional<TimePoint> owed_at;     ///< workers are stopped without a signal: they get one then, unless from Slurm

  // The health check.
  std::optional<std::uint64_t> check;   ///< it runs, started for this generation
  bool check_overdue = false;           ///< it took too long, and is being killed
  std::optional<TimePoint> checked_at;  ///< when a check passed; nothing once workers have run since
  std::string unfit;                    ///< why this node is excluded, or will be when its workers are gone

  // The lease.
  std::optional<TimePoint> lease;   ///< workers may run until then; nothing: no lease is needed
  std::optional<TimePoint> told;    ///< `until` of the last HoldLease
  bool held = false;                ///< Start came after its lease had expired: workers start with the next lease
  std::optional<TimePoint> frozen;  ///< workers are frozen, and killed at this time unless an answer comes
  Life frozen_in = Life::running;   ///< the life in which they were frozen
  bool killed = false;              ///< workers have had SIGKILL because of the lease
  bool death_notice = false;        ///< WriteDeathNotice has recipients

  // The end.
  int exit_code = 0;                     ///< to leave with, once decided
  std::string last_line;                 ///< to print at the end
  std::optional<TimePoint> deadline;     ///< of the farewell, or of the health check
  std::optional<TimePoint> stays_until;  ///< in the farewell: latest `deadline`
  std::optional<TimePoint> armed;        ///< the timer
};

using rendezvous::follower::kFirstLink;
using rendezvous::follower::LinkId;

/// The other end has accepted us: as a joining agent (first link, and after Rejoin), or as a follower.
struct LinkUp {
  LinkId link = kFirstLink;
  std::string coordinator;  ///< its incarnation
  bool relayed = false;     ///< something on the way passes the connection on
};
/// The connection has ended.
struct LinkDown {
  LinkId link = kFirstLink;
  std::string how;
  rendezvous::Ended ended = rendezvous::Ended::broken;
};
/// A call by Dial or Rejoin has failed: no agent was reached, or none that coordinates.
struct LinkFailed {
  LinkId link = kFirstLink;
  std::string why;
  bool refused = false;  ///< no process listens there; false: no answer
};
struct FromLink {
  LinkId link = kFirstLink;
  rendezvous::ToAgent message;
};
struct BeatAnswered {
  LinkId link = kFirstLink;
  rendezvous::BeatAck ack;
};
/// The coordinator inside this agent has lost its authority, or its campaign has failed.
struct SteppedDown {
  std::string why;
  std::uint64_t campaign_id = 0;  ///< the last campaign that it was told to start
};
/// One worker has ended. Exit code 0 with `hung`: it had ended before, and other ranks waited for it.
struct WorkerEnded {
  std::uint64_t number;
  rendezvous::WorkerExit exit;
};
/// Every worker and descendant is reaped; or the health check and its descendants. `waiting`: except for workers that
/// survive and wait for the next generation; the event comes once more, without exits, when those were stopped.
struct GroupEnded {
  std::uint64_t number;
  std::vector<rendezvous::WorkerExit> exits;
  std::vector<std::string> unkillable;
  bool waiting = false;
  rendezvous::StepTimes steps = {};  ///< of these workers in this generation
  bool lacks = false;                ///< other nodes need not wait until the workers that have ended are restarted
};
/// The result of FillWorkers. `whole`: all workers wait; false: one has ended, and is started with the next generation.
struct Filled {
  std::uint64_t number;
  bool whole = false;
};
/// A signal that asks for a graceful end.
struct EndSignal {
  int signal;
  bool pass_on = true;  ///< false: the workers have had it already
  bool ctrl_c = false;  ///< from a terminal, where a second one means KillSignal
  std::string from{};   ///< "from pid 292 (kill), uid 1000"; "" = not known
};
/// End at once (second Ctrl-C).
struct KillSignal {};
/// Workers whose collectives have stood still for a while, or move again (progress_watch.hpp). Or workers that have
/// parked, and which peers they gave up.
struct StoodStill {
  std::uint64_t number;
  std::vector<rendezvous::Standstill> workers;
  std::vector<rendezvous::Named> named = {};
};
struct Tick {};
using Event = std::variant<LinkUp, LinkDown, LinkFailed, FromLink, BeatAnswered, SteppedDown, WorkerEnded, GroupEnded,
                           EndSignal, KillSignal, StoodStill, Filled, Tick>;

/// Takes the events of one agent, on its thread. An event that is fed during a step waits until that is over.
struct Inbox {
  virtual void feed(Event event) = 0;
};

using rendezvous::Learned;
using rendezvous::Withdraw;
using rendezvous::follower::Dial;
using rendezvous::follower::HangUp;
using rendezvous::follower::StartCampaign;
using rendezvous::follower::TellBeat;
using rendezvous::follower::TellLink;
/// Join with a new incarnation. LinkUp or LinkFailed of this link follows.
struct Rejoin {
  LinkId link = kFirstLink;
  rendezvous::Successor to;  ///< the coordinator that dropped us; address "" = call as at the start
  bool once = false;         ///< others can be called instead: LinkFailed as soon as this one does not coordinate
  std::string why = {};      ///< for an agent that was added: what came of its last call
  bool operator==(Rejoin const&) const = default;
};
/// Workers may run until then; the parent process enforces it, too. Nothing: no lease is needed (no workers, or no
/// heartbeats).
struct HoldLease {
  std::optional<TimePoint> until;
  bool operator==(HoldLease const&) const = default;
};
/// What the parent process sends, and to which agents, once this agent is dead and everything it started is reaped.
struct WriteDeathNotice {
  rendezvous::Gone gone;
  /// The coordinator and its possible successors; empty: no notice. Port 0: the coordinator, at the address where it
  /// was joined.
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

/// Start the workers of this generation. Those that wait join it, and need no start.
struct StartWorkers {
  rendezvous::Generation generation;
  bool operator==(StartWorkers const&) const = default;
};
/// Start the missing workers of this generation, which has ended. They wait for the next one that this node is part of.
struct FillWorkers {
  rendezvous::Generation generation;
  bool operator==(FillWorkers const&) const = default;
};
/// Run the health check. It is stopped like workers, and its end is reported like theirs.
struct RunCheck {
  rendezvous::Generation generation;
  bool operator==(RunCheck const&) const = default;
};
struct StopWorkers {
  StopOrder order;
  bool operator==(StopWorkers const&) const = default;
};
/// Record where this worker stands, then SIGKILL it: it has failed. Not if it has moved since the coordinator judged
/// it. A worker that its peers gave up: not if it ends or parks by itself, but if it has ended with 0 it has failed.
struct KillWorker {
  std::uint32_t local_rank;
  rendezvous::Kill order;
  bool operator==(KillWorker const&) const = default;
};
/// This worker was the first of the job to fail: copy its error file to where the caller of cxxrun expects it.
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
