// State: what membership knows, and what it is bound by. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/fitness.hpp"
#include "rendezvous/membership/hanging.hpp"
#include "rendezvous/membership/leadership.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/verdict.hpp"
#include "rendezvous/voting/silence.hpp"
#include "src/core/level.hpp"
#include "src/core/time.hpp"

namespace cxxrun::rendezvous {

// AgentId (leadership.hpp): one connection of one agent; given out by the server in the order of arrival, never reused.

/// What the user asked for and what is ours to set; constant during the run.
struct Policy : Terms {
  Millis join_spacing{60'000};   ///< least time between two generations triggered by joins; the first is free
  Millis linger{5000};           ///< how long the coordinator waits for agents to leave at the end
  std::uint32_t flap_limit = 3;  ///< a node lost this often is refused
  bool ends_when_empty = false;  ///< no agent hosts: a run that everybody has left is over, nobody knows of it
};

enum class Phase {
  standby,     ///< another agent coordinates; survivors of its loss may call here already
  electing,    ///< this agent campaigns: waiting for promises
  forming,     ///< collecting agents
  opening,     ///< members chosen; the store is being opened
  preparing,   ///< members have been told; waiting for their acks
  proposing,   ///< all are ready: the decree is being voted on by the members of the generation before
  lease_wait,  ///< decided; waiting until no older worker can be alive, and for authority over the new generation
  running,     ///< workers run
  stopping,    ///< members stop their workers; the cause is decided when all have
  finished,    ///< verdict given; waiting for agents to leave
  deposed,     ///< authority lost to another coordinator or to a cut: decides nothing any more
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
  std::string unkillable_on;                     ///< why a node was excluded for good; "" = none was
  std::map<AgentId, NodeInfo> excluded;          ///< connected, but excluded: told the end only
  std::map<std::string, std::string> unfit;      ///< node key → "host: why" of nodes that were excluded
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
  std::map<AgentId, ToAgent> draining;
  Leadership leadership;
  std::map<AgentId, FollowerInfo> followers;  ///< connected, have lost their coordinator, not in a generation of ours
  std::vector<std::string> old_hosts;         ///< of the generation whose coordinator was lost, by group rank
  std::uint64_t campaign_id = 0;              ///< of the last Campaign
  std::optional<Learned> learned;             ///< standby: for callers that know of an older generation
  SilenceState silence;                       ///< agents whose beats are watched
  HangState hanging;                          ///< running: workers whose collectives stand still
};

}  // namespace cxxrun::rendezvous
