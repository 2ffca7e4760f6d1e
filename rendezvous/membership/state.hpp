// State: what membership knows, in parts, so that a function takes the part that it needs. Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/hangs/accusing.hpp"
#include "rendezvous/hangs/hanging.hpp"
#include "rendezvous/history/budget.hpp"
#include "rendezvous/history/fitness.hpp"
#include "rendezvous/history/ledger.hpp"
#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/membership/group.hpp"
#include "rendezvous/membership/leavers.hpp"
#include "rendezvous/values/verdict.hpp"
#include "rendezvous/voting/lease.hpp"
#include "rendezvous/voting/proposer.hpp"
#include "rendezvous/voting/silence.hpp"

namespace cxxrun::rendezvous {

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

/// Whether a coordinator in this phase decides: no other one does, as far as it knows.
[[nodiscard]] inline bool decides(Phase phase) {
  return phase != Phase::standby && phase != Phase::electing && phase != Phase::deposed;
}

/// A member of an earlier generation that lacks workers. Others have gone on, or are about to, if they are enough.
struct Lacking {
  std::uint32_t rank = 0;  ///< its group rank then
  bool told = false;       ///< to start what is missing
  bool whole = false;      ///< it has: a node like any other that has no seat
};

/// Who is here, and what is known of nodes that are not.
struct Roster {
  std::map<AgentId, NodeInfo> present;           ///< connected and joined, members and spares
  std::map<AgentId, Lacking> left_out;           ///< of them, without a seat
  std::map<std::uint32_t, AgentId> index_owner;  ///< node index → agent present with it
  std::map<AgentId, NodeInfo> excluded;          ///< connected, but excluded: told the end only
  /// No nodes of the job any more, connected for their vote in the next decree: what each is told once that is decided.
  std::map<AgentId, ToAgent> draining;
  std::set<std::uint32_t> came;                 ///< indices of nodes that have ever joined
  std::map<std::string, std::uint32_t> losses;  ///< per node key: how often lost
  std::map<std::string, std::string> gone;      ///< node key → host of nodes lost and not back
  std::map<std::string, std::string> cut;       ///< node key → host: the connection has ended, the node may live
  std::set<std::string> perhaps_oom;            ///< of `gone`, whose step the kernel may have killed for memory
  std::set<std::uint32_t> dead;                 ///< indices of nodes of the step known dead and not back
  std::uint32_t vanished = 0;                   ///< nodes lost to an earlier coordinator: which ones is not known
  std::map<std::string, std::string> unfit;     ///< node key → "host: why" of nodes that were excluded
  bool refused = false;                         ///< a node that was to come has refused itself, or was refused
  std::string unkillable_on;                    ///< why a node was excluded for good; "" = none was
  Fitness fitness;                              ///< whose failures were whose fault
};

/// A seat of a generation that has run: {generation, group rank}.
using Held = std::pair<std::uint64_t, std::uint32_t>;

/// Whether another coordinator may be elected in the place of this one.
enum class Succession {
  none,      ///< no generation so far could go on without its coordinator
  possible,  ///< one could
  happened,  ///< and this coordinator was elected in the place of another
};

/// Who votes, who has called after a loss, and what a coordinator that is elected knows of the generation that it takes
/// over. The vote itself is voting/proposer.hpp; rules: docs/design/election.md.
struct Election {
  std::map<AgentId, std::uint32_t> voters;    ///< connected members of the last decree, with their group ranks there
  std::map<AgentId, FollowerInfo> followers;  ///< connected, have lost their coordinator, not in a generation of ours
  std::optional<Learned> learned;             ///< standby: for callers that know of an older generation
  std::uint64_t campaign_id = 0;              ///< of the last Campaign
  std::uint64_t seen = 0;                     ///< highest generation number that anybody has heard of
  Succession succession = Succession::none;
  bool survives = false;   ///< the generation being prepared can go on without its coordinator
  bool two_nodes = false;  ///< the pair rule may hold: two members in two nodes, no spare and no stranger ever
  Millis half_after{0};    ///< standing: how long to wait for a majority before half and the fence will do
  std::vector<Successor> successors;           ///< of the last decree; empty: not known
  std::vector<Successor> proposed_successors;  ///< of our own proposal
  std::vector<std::string> old_hosts;          ///< of the generation whose coordinator was lost, by group rank
  /// Seats whose agents are proven dead, by a death notice or by FIN and a refused port; and from when on nothing that
  /// they started can run.
  std::map<Held, TimePoint> dead;
  /// Node keys of members of the last decree that have called, because they had lost this coordinator, and have not
  /// come back since.
  std::set<std::string> turned_away;
  std::set<std::uint32_t> missing;            ///< taking over: members of the last decree that have not called
  std::optional<TimePoint> seats_kept_until;  ///< campaigning: for members that may only be late to notice the loss
  std::optional<TimePoint> last_contact;  ///< taking over: latest contact that a voter has had with the old coordinator
};

/// What the beats and acks of one agent have brought.
struct Pulse {
  std::optional<TimePoint> echo;  ///< newest own send time that it sent back
  std::int64_t sent = 0;          ///< newest send time of its own: what its first lease rests on
};

/// What the coordinator's authority rests on, and whose workers may run by it: voting/lease.hpp.
struct Leases {
  Authority authority;                  ///< echoes, by group rank of the last decree
  std::optional<TimePoint> until;       ///< authority as last counted; never more than it is
  std::optional<TimePoint> counted_at;  ///< when that was
  std::optional<TimePoint> check_at;    ///< authority may have run out at
  std::map<AgentId, Pulse> pulses;
  std::map<AgentId, TimePoint> granted;  ///< when each agent was last sent a lease
  /// Seats whose workers may still run, and when they cannot any more even if nothing is heard: the lease wait before
  /// Start.
  std::map<Held, TimePoint> outstanding;
};

[[nodiscard]] inline bool workers_may_run(Phase phase) {
  return phase == Phase::running || phase == Phase::stopping;
}

/// When something is to happen by itself.
struct Timers {
  std::optional<TimePoint> join;       ///< forming: too few nodes at
  std::optional<TimePoint> window;     ///< forming: go with who is there at
  std::optional<TimePoint> late;       ///< stopping, taking over: members that are late have their seats until
  std::optional<TimePoint> rival;      ///< forming: nobody of those that were lost has called, or come back, by
  std::optional<TimePoint> answer;     ///< electing to stopping, finished: give up waiting at
  std::optional<TimePoint> restart;    ///< after a failure: workers do not start before
  std::optional<TimePoint> scale_out;  ///< running: a join waits for the spacing to pass
  std::optional<TimePoint> last_scale_out;
};

struct State {
  Phase phase = Phase::forming;
  std::uint64_t number = 0;  ///< last generation number given out
  bool ever_ran = false;
  Restarts restarts;
  Group group;  ///< the generation under way; taking over, until our first one is formed, the predecessor's
  Roster roster;
  Proposer proposer;
  Election election;
  Leases leases;
  Timers timers;
  SilenceState silence;    ///< agents whose beats are watched
  HangState hanging;       ///< running: workers whose collectives stand still
  AccusingState accusing;  ///< running: workers that have given up others
  LeaversState leavers;    ///< running: workers that have ended with 0
  Ledger ledger;           ///< where the time went
  std::optional<Verdict> verdict;
  bool closed = false;  ///< Close has been emitted
};

}  // namespace cxxrun::rendezvous
