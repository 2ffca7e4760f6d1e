// Membership: who is in which generation, decided in one place. Pure: no clock, socket, process or log.
//
// The coordinator's shell (server.cpp) turns connections, frames and timers into Events, calls `step`, performs the
// Actions in order and logs the reason. States and transitions are the table in docs/design/membership.md; a test walks
// every (phase, event) pair of it.
//
// Cost: a join, ack, stop or loss is O(log N) of N agents, so that 10,000 joins stay linear. `step` takes the state
// by value: move it in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/fitness.hpp"
#include "rendezvous/membership/hanging.hpp"
#include "rendezvous/membership/mandate.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/verdict.hpp"
#include "rendezvous/voting/silence.hpp"
#include "src/core/time.hpp"
#include "src/core/turn.hpp"

namespace cxxrun::rendezvous {

// AgentId (mandate.hpp): one connection of one agent; given out by the server in the order of arrival, never reused.

/// What the user asked for and what is ours to set; constant during the run.
struct Policy : Terms {
  Millis join_spacing{60'000};   ///< least time between two generations triggered by joins; the first is free
  Millis linger{5000};           ///< how long the coordinator waits for agents to leave at the end
  std::uint32_t flap_limit = 3;  ///< a node lost this often is refused
  bool ends_when_empty = false;  ///< no agent hosts: a run that everybody has left is over, nobody knows of it
};

enum class Phase {
  standby,    ///< another agent coordinates; survivors of its loss may call here already
  electing,   ///< this agent stands for coordinator: waiting for promises
  forming,    ///< collecting agents
  opening,    ///< members chosen; the store is being opened
  preparing,  ///< members have been told; waiting for their acks
  proposing,  ///< all are ready: the decree is being voted on by the members of the generation before
  gated,      ///< decided; waiting until no older worker can be alive, and for authority over the new generation
  running,    ///< workers run
  stopping,   ///< members stop their workers; the cause is decided when all have
  finished,   ///< verdict given; waiting for agents to leave
  deposed,    ///< authority lost to another coordinator or to a cut: decides nothing any more
};

/// A member of the current generation, at its group rank.
struct Seat {
  AgentId agent = 0;
  NodeInfo node;
  std::uint32_t rank_base = 0;
  enum class Now { invited, ready, running, succeeded, stopped, lost } now = Now::invited;
  int leaving = 0;                ///< the signal by which its user told it to end; 0 = stays
  std::vector<WorkerExit> exits;  ///< as reported by Stopped
  std::vector<std::string> unkillable;
};

/// A worker failure in the order in which the coordinator heard of it.
struct Report {
  std::uint32_t group_rank = 0;
  WorkerExit exit;
};

/// Why the current generation is being stopped: the first event, not yet the cause.
struct StopReason {
  StopKind kind = StopKind::failure;
  int signal = 0;  ///< of a user's stop
  std::string why;
  Level level = Level::info;  ///< of the line that says so
};

/// The coordinator's own agent follows another, and has learned what is decided now, and who may lead.
struct Learned {
  Decree decree;
  std::vector<Successor> successors;
  bool operator==(Learned const&) const = default;
};

struct State {
  Phase phase = Phase::forming;
  std::uint64_t number = 0;  ///< last generation number given out
  std::uint32_t restarts = 0;
  bool ever_ran = false;
  std::map<AgentId, NodeInfo> present;  ///< connected and joined, members and spares
  std::vector<Seat> seats;              ///< the generation, by group rank
  std::map<AgentId, std::uint32_t> seat_of;
  std::uint32_t awaited = 0;  ///< seats whose answer the phase still waits for
  std::vector<Report> reports;
  StopReason stop;
  std::map<std::string, std::uint32_t> losses;   ///< per node key: how often lost
  std::set<std::uint32_t> came;                  ///< indices of nodes that have ever joined
  std::map<std::string, std::string> gone;       ///< node key → host of nodes lost and not back
  std::set<std::uint32_t> dead;                  ///< indices of nodes of the step known dead and not back
  std::uint32_t vanished = 0;                    ///< nodes lost to an earlier coordinator: which ones is not known
  std::map<std::uint32_t, AgentId> index_owner;  ///< node index → agent present with it
  std::string set_aside;                         ///< why a node was excluded for good; "" = none was
  std::map<AgentId, NodeInfo> aside;             ///< connected, but set aside: told the end only
  std::map<std::string, std::string> unfit;      ///< node key → "host: why" of nodes that were set aside
  Fitness fitness;                               ///< whose workers were first to fail
  std::vector<TimePoint> restarted_at;           ///< when the newest restarts were consumed, at most max_restarts
  std::optional<TimePoint> join_deadline;        ///< forming: too few nodes at
  std::optional<TimePoint> window_deadline;      ///< forming: go with who is there at
  std::optional<TimePoint> answer_deadline;      ///< preparing, stopping, finished: give up waiting at
  std::optional<TimePoint> scale_out_at;         ///< running: a join waits for the spacing to pass
  std::optional<TimePoint> last_scale_out;
  std::optional<Verdict> verdict;
  bool closed = false;  ///< Close has been emitted
  /// No nodes of the job any more, connected for their vote in the next decree: what each is told once that is decided.
  std::map<AgentId, ToAgent> parting;
  Mandate mandate;
  std::map<AgentId, Elector> electors;  ///< connected, have lost their coordinator, not in a generation of ours
  std::vector<std::string> old_hosts;   ///< of the generation whose coordinator was lost, by group rank
  std::uint64_t candidacy = 0;          ///< of the last Stand
  std::optional<Learned> learned;       ///< standby: for callers that know of an older generation
  SilenceState silence;                 ///< agents whose beats are watched
  HangState hanging;                    ///< running: workers whose collectives stand still
};

struct Opened {};  ///< the coordinator has started
/// The coordinator's own agent stands for election: it has lost the one that was. In phase standby, or again in
/// electing with a higher ballot.
struct Stand {
  Decree decided;  ///< the last one it knows
  Ballot ballot;
  std::uint64_t seen = 0;          ///< highest generation number it has heard of
  std::uint32_t restarts = 0;      ///< consumed
  std::vector<std::string> hosts;  ///< of the members by group rank, for people; may be empty
  bool pair = false;       ///< exactly two members and two nodes, no spare and no stranger ever: the pair rule may hold
  bool peer_dead = false;  ///< with `pair`: the other's FIN and its refused standby port have proven it dead
  std::uint64_t candidacy = 0;  ///< counts those of this agent
  Millis half_after{0};         ///< exactly half of the votes, with a fence, do only when no more came for so long
  std::vector<Successor> successors = {};  ///< of `decided`
  bool operator==(Stand const&) const = default;
};
/// The coordinator's own agent gives its candidacy up, or follows another.
struct Withdraw {
  std::string why;
};
/// An agent that has lost its coordinator presents itself here. Again when what it knows has changed.
struct Followed {
  AgentId agent;
  Elector elector;
};
/// A beat of the agent came. The first one puts it under watch.
struct Beaten {
  AgentId agent;
  Beat beat;
};
/// Its connection for beats has ended in order: it has the timeout anew to open another.
struct BeatsEnded {
  AgentId agent;
};
/// The parent of a dead agent has had the last word.
struct Buried {
  Gone gone;
};
/// The fence file after `after` holds this now; ours if we were first. Nothing: it could not be read or made.
struct Fenced {
  std::uint64_t after = 0;
  std::optional<AcceptedDecree> holds;
  std::string why;
};
struct Joined {
  AgentId agent;
  NodeInfo node;
};
/// The connection ended. FIN and RST mean that the process is gone.
struct Lost {
  AgentId agent;
  std::string how;
};
struct StoreOpened {
  std::uint64_t number;
  std::uint16_t store_port;
  std::uint16_t master_port;
};
struct StoreFailed {
  std::uint64_t number;
  std::string why;
};
struct Said {
  AgentId agent;
  std::variant<Ack, WorkerFailed, Succeeded, Stopped, Leaving, Unfit, Vote, Accepted, Progress> message;
};
/// The coordinator's own process was told to end by this signal.
struct Quit {
  int signal = 0;
};
struct Tick {};
using Event = std::variant<Opened, Joined, Lost, StoreOpened, StoreFailed, Said, Quit, Tick, Stand, Withdraw, Learned,
                           Followed, Beaten, BeatsEnded, Buried, Fenced>;

struct Tell {
  AgentId agent;
  ToAgent message;
  bool operator==(Tell const&) const = default;
};
/// On the agent's connection for beats.
struct TellBeat {
  AgentId agent;
  BeatAck ack;
  bool operator==(TellBeat const&) const = default;
};
/// Claim the fence file for the decision after `value.decree.after`; Fenced follows.
struct ClaimFence {
  AcceptedDecree value;
  bool operator==(ClaimFence const&) const = default;
};
/// This coordinator decides nothing any more; its own agent has to look for another. Close follows.
struct StoodDown {
  std::string why;
  std::uint64_t candidacy = 0;  ///< the last one it has heard of: whoever has stood again since is not meant
  bool operator==(StoodDown const&) const = default;
};
struct OpenStore {
  std::uint64_t number;
  bool operator==(OpenStore const&) const = default;
};
struct CloseStore {
  std::uint64_t number;
  bool operator==(CloseStore const&) const = default;
};
/// Close the agent's connection once what was told has been written.
struct HangUp {
  AgentId agent;
  bool operator==(HangUp const&) const = default;
};
/// The one timer: send Tick at this instant (replaces the previous instant).
struct ArmTimer {
  TimePoint at;
  bool operator==(ArmTimer const&) const = default;
};
/// The job is decided; emitted once.
struct Conclude {
  Verdict verdict;
  bool operator==(Conclude const&) const = default;
};
/// Nobody is left to talk to: the coordinator may go. Emitted once.
struct Close {
  bool operator==(Close const&) const = default;
};
using Action =
    std::variant<Tell, TellBeat, OpenStore, CloseStore, HangUp, ArmTimer, ClaimFence, StoodDown, Conclude, Close>;

using Step = BasicStep<State, Action>;

[[nodiscard]] Step step(State state, Event const& event, TimePoint now, Policy const& policy);

}  // namespace cxxrun::rendezvous
