// State: all that membership knows, in parts, so that a function takes only the part that it needs. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/hangs/blame.hpp"
#include "rendezvous/hangs/hang_detector.hpp"
#include "rendezvous/history/fitness.hpp"
#include "rendezvous/history/ledger.hpp"
#include "rendezvous/history/restarts.hpp"
#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/membership/leavers.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "rendezvous/values/job_end.hpp"
#include "rendezvous/values/verdict.hpp"
#include "rendezvous/voting/lease.hpp"
#include "rendezvous/voting/proposer.hpp"
#include "rendezvous/voting/silence.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {

enum class Phase {
  standby,     ///< another agent coordinates; agents that have lost it may call here already
  electing,    ///< this agent campaigns: waiting for promises
  forming,     ///< collecting agents
  opening,     ///< members are chosen; the store is being opened
  preparing,   ///< members have been told; waiting for their acks
  proposing,   ///< all members are ready: the members of the last generation vote on the decree
  lease_wait,  ///< decided; waiting until no older worker can be alive, and for authority over the new generation
  running,     ///< workers run
  stopping,    ///< members stop their workers; the cause is determined when all have stopped
  finished,    ///< the verdict is given; waiting for agents to leave
  deposed,     ///< authority was lost to another coordinator or a network cut: decides nothing any more
};

/// As in docs/design/membership.md.
[[nodiscard]] constexpr char const* name_of(Phase phase) {
  switch (phase) {
    case Phase::standby: return "standby";
    case Phase::electing: return "electing";
    case Phase::forming: return "forming";
    case Phase::opening: return "opening";
    case Phase::preparing: return "preparing";
    case Phase::proposing: return "proposing";
    case Phase::lease_wait: return "lease_wait";
    case Phase::running: return "running";
    case Phase::stopping: return "stopping";
    case Phase::finished: return "finished";
    case Phase::deposed: return "deposed";
  }
  return "unknown";
}
/// Whether a coordinator in this phase may decide. As far as it knows, no other one does.
[[nodiscard]] inline bool decides(Phase phase) {
  return phase != Phase::standby && phase != Phase::electing && phase != Phase::deposed;
}
[[nodiscard]] inline bool workers_may_run(Phase phase) {
  return phase == Phase::running || phase == Phase::stopping;
}

// ---- the generation under way ---------------------------------------------------------------------------------

/// A member of the current generation, at its group rank.
struct Seat {
  AgentId agent = 0;
  NodeInfo node;
  std::uint32_t rank_base = 0;
  enum class Now { invited, ready, running, succeeded, stopped, lost } now = Now::invited;
  int leaving = 0;                ///< the signal by which its user told it to end; 0 = stays
  std::vector<WorkerExit> exits;  ///< as reported by Stopped
  std::vector<std::string> unkillable;
  bool lacks = false;   ///< as reported by Stopped
  std::string drained;  ///< why its node leaves the job with this generation: "drained by …"; "" = it stays
};

/// A worker failure. Reports are kept in the order in which the coordinator received them.
struct Report {
  std::uint32_t group_rank = 0;
  WorkerExit exit;
};

/// Why the current generation is being stopped: the first event, which need not be the cause.
struct StopReason {
  StopKind kind = StopKind::failure;
  int signal = 0;  ///< of a user's stop
  std::string why;
  Level level = Level::info;  ///< of its log line
};

/// The members of one generation and what became of each.
struct Group {
  std::vector<Seat> seats;  ///< by group rank
  std::map<AgentId, std::uint32_t> seat_of;
  std::uint32_t awaited = 0;  ///< seats whose answer the phase still waits for
  std::vector<Report> reports;
  StopReason stop;
  std::optional<TimePoint> began;  ///< when its members were told to start
  /// Node keys of members that were cut off after their work was done, and may call to hear the verdict.
  std::set<std::string> unaware;
  bool lived = false;  ///< it has run for long enough, or one of its workers has completed a step
};

// ---- nodes ----------------------------------------------------------------------------------------------------

/// A member of an earlier generation that lacks workers. The others go on without it if they are enough.
struct Lacking {
  std::uint32_t rank = 0;  ///< its group rank then
  bool told = false;       ///< to start the missing workers
  bool whole = false;      ///< it has started them: now it is a spare like any other
};

/// The nodes that are here, and what is known of those that are not.
struct Roster {
  std::map<AgentId, NodeInfo> present;           ///< connected and joined: members and spares
  std::map<AgentId, Lacking> left_out;           ///< of these, without a seat because they lack workers
  std::map<std::uint32_t, AgentId> index_owner;  ///< node index → agent present with it
  std::map<AgentId, NodeInfo> excluded;          ///< connected, but excluded: these are only told the end
  /// No longer part of the job, but connected for their vote in the next decree; and their final message after that.
  std::map<AgentId, ToAgent> draining;
  std::set<std::uint32_t> came;                 ///< indices of nodes that have ever joined
  std::map<std::string, std::uint32_t> losses;  ///< per node key: how often lost
  std::map<std::string, std::string> gone;      ///< node key → host of nodes that were lost and are not back
  std::map<std::string, std::string> cut;       ///< node key → host: the connection has ended, the node may live
  std::set<std::string> perhaps_oom;            ///< of `gone`: the kernel may have killed the step for memory
  std::set<std::uint32_t> dead;                 ///< indices of nodes of the step that are dead and not back
  std::uint32_t vanished = 0;                   ///< number of nodes lost to an earlier coordinator: unknown which
  std::map<std::string, std::string> unfit;     ///< node key → "host: why" of nodes that were excluded
  bool refused = false;                         ///< a node could not join: it, or we, refused
  std::string unkillable_on;                    ///< why a node was excluded for good; "" = none was
  Fitness fitness;                              ///< whose fault the failures were
};

// ---- election and leases --------------------------------------------------------------------------------------

/// A seat of a generation that has run: {generation, group rank}.
using Held = std::pair<std::uint64_t, std::uint32_t>;

/// Whether another coordinator may be elected in the place of this one.
enum class Succession {
  none,      ///< no generation so far could go on without its coordinator
  possible,  ///< one could
  happened,  ///< one could, and this coordinator was elected in the place of another
};

/// Voters, agents that have called after a loss, and what an elected coordinator knows of the generation that it takes
/// over. The vote itself is voting/proposer.hpp; rules: docs/design/election.md.
struct Election {
  std::map<AgentId, std::uint32_t> voters;    ///< connected members of the last decree → their group rank there
  std::map<AgentId, FollowerInfo> followers;  ///< connected; have lost their coordinator; not in our generation
  std::optional<Learned> learned;             ///< standby: for callers that know an older generation
  std::uint64_t campaign_id = 0;              ///< of the last Campaign
  std::uint64_t seen = 0;                     ///< highest generation number that any agent has heard of
  Succession succession = Succession::none;
  bool survives = false;   ///< the generation being prepared can go on without its coordinator
  bool two_nodes = false;  ///< the pair rule may hold: two members on two nodes, never a spare or a stranger
  Millis half_after{0};    ///< campaigning: how long to wait for a majority before half and the fence will do
  std::vector<Successor> successors;           ///< of the last decree; empty: unknown
  std::vector<Successor> proposed_successors;  ///< of our own proposal
  std::vector<std::string> old_hosts;          ///< by group rank, of the generation whose coordinator was lost
  /// Seats whose agents are proven dead (by a death notice, or by FIN and a refused port) → the time after which
  /// nothing that they started can run.
  std::map<Held, TimePoint> dead;
  /// Node keys of members of the last decree that had lost this coordinator, called, were refused and are not back.
  std::set<std::string> turned_away;
  std::set<std::uint32_t> missing;            ///< taking over: members of the last decree that have not called
  std::optional<TimePoint> seats_kept_until;  ///< taking over: for members that may notice the loss late
  std::optional<TimePoint> last_contact;      ///< taking over: a voter's latest contact with the old coordinator
};

/// What the beats and acks of one agent have brought.
struct Pulse {
  std::optional<TimePoint> echo;  ///< newest send time of ours that it has sent back
  std::int64_t sent = 0;          ///< newest send time of its own: its first lease counts from there
};

/// What the coordinator's authority rests on, and whose workers may run by it: voting/lease.hpp.
struct Leases {
  Authority authority;                  ///< echoes, by group rank of the last decree
  std::optional<TimePoint> until;       ///< end of the authority when last counted; never later than the true end
  std::optional<TimePoint> counted_at;  ///< when that was
  std::optional<TimePoint> check_at;    ///< when the authority may have run out
  std::map<AgentId, Pulse> pulses;
  std::map<AgentId, TimePoint> granted;  ///< when each agent was last sent a lease
  /// Seats whose workers may still run, and until when, even if nothing is heard: Start waits for all of them.
  std::map<Held, TimePoint> outstanding;
};

/// When something is to happen by itself.
struct Timers {
  std::optional<TimePoint> join;       ///< forming: too few nodes have come
  std::optional<TimePoint> window;     ///< forming: go on with the nodes that are here
  std::optional<TimePoint> late;       ///< stopping, taking over: the seats of late members are kept until then
  std::optional<TimePoint> rival;      ///< forming: lost members must call or come back by then
  std::optional<TimePoint> answer;     ///< electing to stopping, finished: stop waiting for answers
  std::optional<TimePoint> restart;    ///< after a failure: workers do not start before
  std::optional<TimePoint> scale_out;  ///< running: a join waits for the spacing to pass
  std::optional<TimePoint> last_scale_out;
};

struct State {
  Phase phase = Phase::forming;
  std::uint64_t number = 0;  ///< last generation number given out
  bool ever_ran = false;
  Restarts restarts;
  Group group;  ///< the generation under way; after a takeover, the predecessor's until our first is formed
  Roster roster;
  Proposer proposer;
  Election election;
  Leases leases;
  Timers timers;
  SilenceState silence;           ///< agents whose beats are watched
  HangState hangs;                ///< running: workers whose collectives stand still
  BlameState blame;               ///< running: workers that have given up on others
  LeaversState leavers;           ///< running: workers that have ended with 0
  Ledger ledger;                  ///< where the time went
  std::optional<JobEnd> job_end;  ///< all members are told
  std::optional<Verdict> verdict;
  bool closed = false;  ///< Close has been emitted
};

}  // namespace cxxrun::rendezvous
