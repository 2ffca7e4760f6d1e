// Follower: whom an agent follows, what it owes as a voter, and what it does when nobody leads any more. Pure.
//
// One part of the agent's state machine (launcher/life/agent_state.hpp), which says what becomes of the workers. Rules:
// docs/design/election.md. The state is O(8) links whatever the number of members, and every function is O(8).
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
#include "rendezvous/values/ended.hpp"
#include "rendezvous/voting/acceptor.hpp"
#include "rendezvous/voting/lease.hpp"
#include "src/base/core/time.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous::follower {

/// One connection to a coordinator, or to an agent that may become one. The first is 1; never reused.
using LinkId = std::uint64_t;
inline constexpr LinkId kFirstLink = 1;

/// Call this agent to follow it: LinkUp or LinkFailed comes. A new link id each time. Port 0: whoever was joined last,
/// at every door where it was looked for.
struct Dial {
  LinkId link = kFirstLink;
  Successor to;
  bool operator==(Dial const&) const = default;
};
struct HangUp {
  LinkId link = kFirstLink;
  bool operator==(HangUp const&) const = default;
};
/// In a FollowerInfo, `node` is filled in by whoever performs this.
struct TellLink {
  LinkId link = kFirstLink;
  ToCoordinator message;
  bool operator==(TellLink const&) const = default;
};
/// On the link's connection for beats, which is opened with the first one.
struct TellBeat {
  LinkId link = kFirstLink;
  Beat beat;
  bool operator==(TellBeat const&) const = default;
};
/// The coordinator inside this agent campaigns.
struct StartCampaign {
  rendezvous::Campaign campaign;
  bool operator==(StartCampaign const&) const = default;
};
/// Withdraw and Learned are for the coordinator inside this agent, which passes the latter on to those that call there.
using Action = std::variant<TellLink, TellBeat, Dial, HangUp, StartCampaign, Withdraw, Learned>;

/// Of a run without heartbeats, and of one node with itself.
inline constexpr LeaseTerms kNoLeases{Millis{0}, Millis{0}, Millis{0}, Millis{0}, Millis{0}};

/// A beat that stays unanswered for h is followed by so many in each h, on fresh connections, until one is answered.
inline constexpr int kProbesPerBeat = 5;

struct Policy {
  LeaseTerms lease = kNoLeases;
  Tie tie = Tie::rank;
  Millis spacing{200};      ///< d: from one successor's turn to the next one's; more than two round trips
  std::uint32_t tries = 3;  ///< rounds without a coordinator before this agent gives up
  bool pair = false;        ///< the step has two nodes, and nobody else can come: the pair rule may hold
};

struct Link {
  Successor to;          ///< whom it was dialled to
  bool dialled = false;  ///< to follow; false: to join
  bool own = false;      ///< leads to the coordinator inside this agent
  bool up = false;
  bool relayed = false;            ///< its end may be that of whoever passes it on
  bool ended = false;              ///< by the other side: nothing to hang up
  std::string coordinator;         ///< the other end's incarnation
  OwnTime echo = 0;                ///< newest send time heard from there
  std::optional<TimePoint> heard;  ///< the newest answer to a beat; nothing: not judged by its silence
  std::optional<TimePoint> asked;  ///< when the oldest beat was sent that nothing has answered
};

/// The last decided generation, as far as this agent knows it. Number 0: none yet.
struct Known {
  Decree decree;
  std::optional<std::uint32_t> rank;  ///< own group rank; nothing: no member, so no vote
  std::vector<Successor> successors;
  bool survives = false;  ///< the job can go on without its coordinator
  bool led = false;       ///< a member coordinates it, not cxxrun-rendezvous
  std::string hosts;
  std::optional<TimePoint> begun;  ///< when this agent was told to start it
  bool pair = false;               ///< two members, the same ones since the first generation
};

/// Nobody leads: being looked for.
struct Search {
  std::string how;                         ///< the coordinator was lost
  std::string lost;                        ///< where it listened, "" = not among the successors
  TimePoint since;                         ///< of this round: turns count from here
  Millis spacing{0};                       ///< of this round: from one turn to the next one's
  TimePoint until;                         ///< no progress by then: the next round
  TimePoint over;                          ///< of all rounds: a member gives up, whoever has its promise
  std::uint32_t tries = 0;                 ///< rounds that led to nothing
  std::set<std::string> called;            ///< addresses called in this round
  std::map<std::string, TimePoint> again;  ///< addresses that did not answer: called again then
  std::set<std::string> dead;              ///< addresses where nobody listened: their turn is passed
  bool campaigned = false;                 ///< had our own turn in this round
  bool campaigning = false;
};

/// Nobody else may lead: the coordinator that was lost is called again, in case only the connection was.
struct Recall {
  std::string how;    ///< it was lost
  LinkId link = 0;    ///< of the call that is under way; 0: none is
  TimePoint again;    ///< the next one
  TimePoint until;    ///< it is not back by then: lost for good
  bool over = false;  ///< nobody listens at any of its doors
};

/// A coordinator of this generation whose own connection ended in order, without a goodbye. It is dead once its standby
/// port refuses a call.
struct Suspect {
  Successor at;
  TimePoint again;  ///< it is called again then, when a search is over before that is known
};

struct State {
  Known decided;
  std::optional<Generation> prepared;  ///< a later generation that this agent is ready for
  OwnTime prepared_sent = 0;           ///< when its coordinator sent it
  std::optional<TimePoint> job_began;  ///< as the coordinator counts that sent it
  std::optional<Generation> kept;      ///< the one it has accepted, while it is ready for another: may yet be decided
  std::uint64_t seen = 0;              ///< highest generation number ever heard of
  Acceptor acceptor;
  std::string promised_to;        ///< incarnation of the candidate whose ballot is promised; "" = only round 1 has been
  std::uint32_t round = 0;        ///< highest in which this agent has campaigned in this instance
  std::uint64_t campaign_id = 0;  ///< how often this agent has campaigned
  std::map<LinkId, Link> links{{kFirstLink, Link{}}};
  LinkId main = kFirstLink;  ///< the one that is obeyed; 0: none
  LinkId favoured = 0;       ///< the one of `promised_to`
  LinkId last_link = kFirstLink;
  std::optional<TimePoint> last_contact;  ///< newest contact with the coordinator of `decided`; nothing: unsure
  std::optional<TimePoint> next_beat;
  std::optional<Search> search;
  std::optional<Recall> recall;
  std::map<std::uint32_t, Suspect> suspects;  ///< seats of `decided` that may be dead
  std::map<std::uint32_t, TimePoint> dead;    ///< those that are proven dead, and since when
};

struct Turn : BasicTurn<State, Action, Policy> {
  bool workers = false;  ///< of the decided generation run or may run here
  StepsAgo steps = {};   ///< of those that have ended
};

/// The link of this id; null: it is gone.
template <class AnyState>
[[nodiscard]] auto find(AnyState& state, LinkId id) -> decltype(&state.links.begin()->second) {
  auto const it = state.links.find(id);
  return it == state.links.end() ? nullptr : &it->second;
}

[[nodiscard]] OwnTime own_time(TimePoint at);
[[nodiscard]] TimePoint time_of(OwnTime at);
/// T, and when nobody is judged by silence something in its place: a search has to end.
[[nodiscard]] Millis patience(Policy const& policy);

// ---- following --------------------------------------------------------------------------------------------------

void link_up(Turn& turn, LinkId id, std::string const& coordinator, bool relayed = false);
/// Not the main link: that one's end is for the agent to judge (`search`).
void link_down(Turn& turn, LinkId id);
void link_failed(Turn& turn, LinkId id, bool refused);
void answered(Turn& turn, LinkId id, BeatAck const& ack);
/// The coordinator has sent something with its time.
void heard(Turn& turn, OwnTime sent);
/// This agent is ready for a generation, whose coordinator is to be told so with the Ack that is returned.
[[nodiscard]] Ack ready(Turn& turn, Generation const& generation);
/// The prepared generation is decided.
void adopt(Turn& turn);
/// The prepared generation of this number runs: it is decided, and nothing older runs any more.
void started(Turn& turn, std::uint64_t number);
/// Whoever calls this agent, and knows of an older generation, is to hear of the one that is decided now.
void pass_on(Turn& turn);
/// A message on `link` about workers is to be obeyed: it is the main one, or of a candidate that may lead.
[[nodiscard]] bool obeys(State const& state, LinkId id);
/// It leads: the main link from now on.
void follow(Turn& turn, LinkId id);
/// The coordinator inside this agent is the one that is followed.
[[nodiscard]] bool leads(State const& state);
/// This agent has been suspended: what it has not heard meanwhile proves nothing.
void excuse_silence(Turn& turn);
/// The coordinator has been silent for too long.
[[nodiscard]] bool is_silent(State const& state, TimePoint now, Policy const& policy);
void send_beats(Turn& turn);

// ---- voting -----------------------------------------------------------------------------------------------------

void hear(Turn& turn, LinkId id, VoteRequest const& message);
void hear(Turn& turn, LinkId id, Propose const& message);
/// Whether this agent has learned of a later generation, or who leads on from the one that it knows.
[[nodiscard]] bool hear(Turn& turn, LinkId id, Decided const& message);
/// What this agent says of itself to whoever may take over, and that it has changed.
[[nodiscard]] FollowerInfo follower_info(Turn const& turn);
void tell_again(Turn& turn);

// ---- searching --------------------------------------------------------------------------------------------------

[[nodiscard]] bool can_search(State const& state);
void search(Turn& turn, std::string how, Ended ended = Ended::silent);
/// A later generation became known during the search: goes on among its members, or follows who leads it (0: not
/// known).
void search_in(Turn& turn, LinkId leader);
/// For how long a coordinator is called again where nobody else may lead.
[[nodiscard]] Millis recall_time(Policy const& policy);
/// Where nobody else may lead: ends every link, and calls the coordinator again.
void recall(Turn& turn, std::string how);
/// It does not come back.
[[nodiscard]] bool is_lost_for_good(State const& state, TimePoint now);
/// The call of this link has come to nothing. False: it was no such call.
bool recall_failed(Turn& turn, LinkId id, bool refused);
/// When its time has come.
void call_again(Turn& turn);
/// The coordinator inside this agent has given its campaign up.
void stepped_down(Turn& turn);
/// Ends the search and every link: this agent leaves or begins anew.
void abandon(Turn& turn, std::string const& why);
/// What is due by now. False: nobody leads, and the search is over.
[[nodiscard]] bool search_on(Turn& turn);
/// One line: who could be reached, or that nobody could take over, and what to type.
[[nodiscard]] std::string partitioned_line(State const& state);

[[nodiscard]] std::optional<TimePoint> search_due(State const& state);

/// When send_beats, is_silent or search_on has something to do.
[[nodiscard]] std::optional<TimePoint> due(State const& state, Policy const& policy);

}  // namespace cxxrun::rendezvous::follower
