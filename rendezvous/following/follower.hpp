// Follower: the coordinator that an agent follows, its votes, and its search for the next coordinator. Pure.
//
// A part of the agent's state machine (launcher/life/agent_state.hpp), which decides about the workers. The rules are
// in docs/design/election.md. State and cost of every function are O(kMaxSuccessors), whatever the number of members.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "rendezvous/values/job_end.hpp"
#include "rendezvous/voting/acceptor.hpp"
#include "rendezvous/voting/lease.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous::follower {

/// One connection to a coordinator, or to an agent that may become one. Ids count from 1 and are never reused.
using LinkId = std::uint64_t;
inline constexpr LinkId kFirstLink = 1;

/// Calls this agent in order to follow it, under a new link id; LinkUp or LinkFailed is the answer. Port 0: calls the
/// coordinator that was joined last, at every address and port where it was looked for.
struct Dial {
  LinkId link = kFirstLink;
  Successor to;
  bool operator==(Dial const&) const = default;
};
struct HangUp {
  LinkId link = kFirstLink;
  bool operator==(HangUp const&) const = default;
};
/// The shell fills in `node` of a FollowerInfo.
struct TellLink {
  LinkId link = kFirstLink;
  ToCoordinator message;
  bool operator==(TellLink const&) const = default;
};
/// Goes on the link's connection for beats, which the first beat opens.
struct TellBeat {
  LinkId link = kFirstLink;
  Beat beat;
  bool operator==(TellBeat const&) const = default;
};
/// Starts a campaign of the coordinator inside this agent.
struct StartCampaign {
  rendezvous::Campaign campaign;
  bool operator==(StartCampaign const&) const = default;
};
/// Withdraw and Learned go to the coordinator inside this agent, which passes Learned on to its callers.
using Action = std::variant<TellLink, TellBeat, Dial, HangUp, StartCampaign, Withdraw, Learned>;

/// For a run without heartbeats, and for a single node.
inline constexpr LeaseTerms kNoLeases{Millis{0}, Millis{0}, Millis{0}, Millis{0}, Millis{0}};

/// Beats per h once one was unanswered for h, each on a new connection too (net/beat_line.hpp), until one is answered.
inline constexpr int kProbesPerBeat = 5;

struct Policy {
  LeaseTerms lease = kNoLeases;
  Tie tie = Tie::rank;
  Millis spacing{200};      ///< d: from one successor's turn to the next; more than two round trips
  std::uint32_t tries = 3;  ///< rounds without a coordinator before this agent gives up
  bool pair = false;        ///< the step has two nodes and no other can join: the pair rule may apply
};

struct Link {
  Successor to;          ///< the agent that was called
  bool dialled = false;  ///< called to follow it; false: called to join
  bool own = false;      ///< leads to the coordinator inside this agent
  bool up = false;
  bool relayed = false;            ///< it may be a relay's, so its end proves nothing
  bool ended = false;              ///< by the other side, so there is nothing to hang up
  std::string coordinator;         ///< the other end's incarnation
  OwnTime echo = 0;                ///< newest send time received from there
  std::optional<TimePoint> heard;  ///< newest answer to a beat; nothing: its silence is not watched
  std::optional<TimePoint> asked;  ///< send time of the oldest unanswered beat
};

/// The last decided generation that this agent knows. Number 0: none yet.
struct Known {
  Decree decree;
  std::optional<std::uint32_t> rank;  ///< own group rank; nothing: not a member, so without a vote
  std::vector<Successor> successors;
  bool survives = false;  ///< the job can continue without its coordinator
  bool led = false;       ///< a member coordinates it, not cxxrun-rendezvous
  std::string hosts;
  std::optional<TimePoint> begun;  ///< when this agent was told to start it
  bool pair = false;               ///< it has two members, and they are those of the first generation
};

/// The search for a new coordinator.
struct Search {
  std::string how;                         ///< how the coordinator was lost
  std::string lost;                        ///< where it listened; "" = it is not among the successors
  TimePoint since;                         ///< start of this round, from which turns count
  Millis spacing{0};                       ///< from one turn to the next in this round
  TimePoint until;                         ///< without progress by then the next round begins
  TimePoint over;                          ///< a member gives up then, even if a candidate has its promise
  std::uint32_t tries = 0;                 ///< rounds without a result
  std::set<std::string> called;            ///< addresses called in this round
  std::map<std::string, TimePoint> again;  ///< addresses that did not answer, and when to call them again
  std::set<std::string> dead;              ///< addresses where nothing listened: their turns are skipped
  bool campaigned = false;                 ///< this agent has had its turn in this round
  bool campaigning = false;
};

/// If nobody else may lead, the lost coordinator is called again: maybe only the connection was lost.
struct Recall {
  std::string how;    ///< how it was lost
  LinkId link = 0;    ///< of the current call; 0: none
  TimePoint again;    ///< time of the next call
  TimePoint until;    ///< without an answer by then it is lost for good
  bool over = false;  ///< nothing listens at any of its addresses
};

/// A coordinator of this generation whose connection ended in order, without a goodbye. It is proven dead when its
/// standby port refuses a call.
struct Suspect {
  Successor at;
  TimePoint again;  ///< time of the next call, if the search ended before that was known
};

struct State {
  Known decided;
  std::optional<Generation> prepared;  ///< a later generation that this agent is ready for
  OwnTime prepared_sent = 0;           ///< when its coordinator sent it
  std::optional<TimePoint> job_began;  ///< by the count of that coordinator
  std::optional<JobEnd> job_end;       ///< as the last coordinator that knew has said
  std::optional<Generation> kept;      ///< an accepted one that `prepared` has replaced: it may still be decided
  std::uint64_t seen = 0;              ///< highest generation number ever heard of
  Acceptor acceptor;
  std::string promised_to;        ///< incarnation of the candidate that has our promise; "" = still round 1
  std::uint32_t round = 0;        ///< highest round in which this agent campaigned in this instance
  std::uint64_t campaign_id = 0;  ///< number of this agent's campaigns
  std::map<LinkId, Link> links{{kFirstLink, Link{}}};
  LinkId main = kFirstLink;  ///< the link that is obeyed; 0: none
  LinkId favoured = 0;       ///< the link of `promised_to`
  LinkId last_link = kFirstLink;
  std::optional<TimePoint> last_contact;  ///< newest one with the coordinator of `decided`; nothing: unsure
  std::optional<TimePoint> next_beat;
  std::optional<Search> search;
  std::optional<Recall> recall;
  std::map<std::uint32_t, Suspect> suspects;  ///< seats of `decided` that may be dead
  std::map<std::uint32_t, TimePoint> dead;    ///< seats that are proven dead, and since when
};

struct Turn : BasicTurn<State, Action, Policy> {
  bool workers = false;  ///< workers of the decided generation run or may run here
  StepsAgo steps = {};   ///< of workers that have ended
};

/// The link of this id; null: it is gone.
template <class AnyState>
[[nodiscard]] auto find(AnyState& state, LinkId id) -> decltype(&state.links.begin()->second) {
  auto const it = state.links.find(id);
  return it == state.links.end() ? nullptr : &it->second;
}

/// T, or a fixed time if there are no heartbeats: a search has to end then, too.
[[nodiscard]] Millis patience(Policy const& policy);

// ---- following --------------------------------------------------------------------------------------------------

void link_up(Turn& turn, LinkId id, std::string const& coordinator, bool relayed = false);
/// Not for the main link: when that one ends, the agent decides (`search`).
void link_down(Turn& turn, LinkId id);
void link_failed(Turn& turn, LinkId id, bool refused);
void answered(Turn& turn, LinkId id, BeatAck const& ack);
/// The coordinator has sent a message with its own time.
void heard(Turn& turn, OwnTime sent);
/// This agent is ready for a generation. Returns the Ack for its coordinator.
[[nodiscard]] Ack ready(Turn& turn, Generation const& generation);
/// The prepared generation is decided.
void adopt(Turn& turn);
/// The prepared generation of this number starts: it is decided, and no older one runs.
void started(Turn& turn, std::uint64_t number);
/// Lets the coordinator inside this agent tell callers that know an older generation of the decided one.
void pass_on(Turn& turn);
/// Whether messages about workers on this link are obeyed: it is the main link, or that of a candidate that may lead.
[[nodiscard]] bool obeys(State const& state, LinkId id);
/// The other end leads: makes this the main link.
void follow(Turn& turn, LinkId id);
/// Whether this agent follows the coordinator inside itself.
[[nodiscard]] bool leads(State const& state);
/// This agent was suspended: ignores the silence of that time.
void excuse_silence(Turn& turn);
/// Whether the coordinator has been silent for too long.
[[nodiscard]] bool is_silent(State const& state, TimePoint now, Policy const& policy);
void send_beats(Turn& turn);

// ---- voting -----------------------------------------------------------------------------------------------------

void hear(Turn& turn, LinkId id, VoteRequest const& message);
void hear(Turn& turn, LinkId id, Propose const& message);
/// Returns whether this agent learned of a later generation, or who leads the one that it knows.
[[nodiscard]] bool hear(Turn& turn, LinkId id, Decided const& message);
/// What this agent tells an agent that may take over; `tell_again` sends it again to all of them.
[[nodiscard]] FollowerInfo follower_info(Turn const& turn);
void tell_again(Turn& turn);

// ---- searching --------------------------------------------------------------------------------------------------

[[nodiscard]] bool can_search(State const& state);
void search(Turn& turn, std::string how, Ended ended = Ended::silent);
/// A later generation became known during the search: continues among its members, or follows the link of its leader
/// (0: not known).
void search_in(Turn& turn, LinkId leader);
/// How long a lost coordinator is called again if nobody else may lead.
[[nodiscard]] Millis recall_time(Policy const& policy);
/// Nobody else may lead: ends every link and calls the lost coordinator again.
void recall(Turn& turn, std::string how);
/// Whether it does not come back.
[[nodiscard]] bool is_lost_for_good(State const& state, TimePoint now);
/// The call of this link failed. False: it was not a call to a lost coordinator.
bool recall_failed(Turn& turn, LinkId id, bool refused);
/// Calls the lost coordinator if it is time.
void call_again(Turn& turn);
/// The coordinator inside this agent has given up its campaign.
void stepped_down(Turn& turn);
/// Ends the search and every link: this agent leaves, or joins again.
void abandon(Turn& turn, std::string const& why);
/// Does what is due. False: the search is over without a coordinator.
[[nodiscard]] bool search_on(Turn& turn);
/// One line: which nodes were reached, or that none could take over, and the remedy.
[[nodiscard]] std::string partitioned_line(State const& state);
[[nodiscard]] std::optional<TimePoint> search_due(State const& state);

/// When send_beats, is_silent or search_on is due.
[[nodiscard]] std::optional<TimePoint> due(State const& state, Policy const& policy);

}  // namespace cxxrun::rendezvous::follower
