// Messages between agents and the coordinator, as values, and their JSON text.
//
// Byte layout: docs/design/wire_protocol.md; names of the fields: message_fields.hpp. Decoding is total: any text gives
// a message or an Error, nothing throws, nothing grows beyond the frame that carried it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/both_ends.hpp"
#include "rendezvous/values/decree.hpp"
#include "rendezvous/values/generation.hpp"
#include "rendezvous/values/standstill.hpp"
#include "rendezvous/values/steps.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"
#include "src/base/store/admission.hpp"

namespace cxxrun::rendezvous {

/// Version of everything below; a peer of another version is refused by name.
inline constexpr std::uint32_t kProtocolVersion = 1;

/// What the user asked for, the same for every agent of a run. The agents bring it: a coordinator that serves a whole
/// job knows nothing of it before the first one joins.
struct Terms {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> expected_nodes;  ///< nodes of the Slurm step: who comes without being added by hand
  std::uint32_t max_restarts = 3;
  bool max_restarts_given = false;  ///< then no failure ends the run before they are used up
  Millis join_window{5000};         ///< first generation: wait this long for more once MIN is reached
  Millis rejoin_window{5000};       ///< later generations, when somebody is missing
  Millis join_timeout{600'000};     ///< MIN not reached by then: too few nodes
  Millis ack_timeout{30'000};       ///< a member that does not answer Prepare is dropped
  Millis heartbeat_timeout{5000};   ///< a member silent for longer is lost; 0: never
  Millis stop_timeout{120'000};     ///< a member that does not report Stopped is dropped
  bool agent_store = true;          ///< MASTER_PORT is the store; false: a port left free for rank 0
  std::uint16_t master_port = 0;    ///< exact MASTER_PORT, 0: the kernel's choice
  Tie tie = Tie::rank;              ///< --quorum, --fence
  bool scale_out_now = true;        ///< --scale-out=now; false: nodes that come wait for the next restart
  Millis restart_window{0};         ///< --restart-window: max_restarts within this time; 0: within the job's life
  Millis restart_delay{30'000};     ///< --restart-delay: the longest wait before a restart
  Millis hang_timeout{0};           ///< --hang-timeout: who keeps the others waiting for longer is killed; 0: nobody is
  store::StoreAccess store_access = store::StoreAccess::user;
  std::string fence_dir;  ///< --fence, for agents that are added; "" = none
  bool operator==(Terms const&) const = default;
};

// ---- the handshake ------------------------------------------------------------------------------

/// First frame of a connection, agent to coordinator.
struct Hello {
  enum class Purpose {
    agent,
    beat,          ///< heartbeats only, so that data never delays them
    death_notice,  ///< the death notice of an agent's parent: the agent is dead and so is everything it started; Gone
                   ///< follows
  };
  /// Which run the agent wants; run_table.hpp decides.
  enum class Asks {
    meet,    ///< the run of this id, which the agent that hosts has opened
    open,    ///< the run of this id, opened now if there is none: an id used once, like Slurm's job and step
    reopen,  ///< the same, but once its run is over the id names a new one (--rdzv-id)
    enter,   ///< to be one more node of a run that is under way: of this id, or the only one when it is ""
    follow,  ///< whoever is to coordinate this run from now on: said to a standby port, followed by FollowerInfo
  };
  std::uint32_t version = kProtocolVersion;
  std::string run_id;
  std::string nonce;  ///< the agent's incarnation: random, new at every start
  Purpose purpose = Purpose::agent;
  Asks asks = Asks::meet;
  BothEnds ends = {};           ///< as the caller sees them
  std::string local_addr = {};  ///< --local-addr: as which address the others see it, whatever it sees itself
  bool operator==(Hello const&) const = default;
};

/// The coordinator's answer. `refused` non-empty: the connection closes after this frame.
struct HelloReply {
  enum class Why {
    accepted,
    other_job,
    other_version,
    relayed,  ///< somebody between us passes this connection on: no address that it shows is true
  };
  std::uint32_t version = kProtocolVersion;
  std::string coordinator;     ///< the coordinator's nonce: an agent that hosts recognises itself by it
  std::string run_id;          ///< of the run the agent would be in
  std::optional<Terms> terms;  ///< of that run, for an agent that brings none (--join)
  Why why = Why::accepted;
  std::string refused;
  BothEnds seen;  ///< as the coordinator sees them
  bool operator==(HelloReply const&) const = default;
};

// ---- agent to coordinator -----------------------------------------------------------------------

/// What an agent says of itself when it joins.
struct NodeInfo {
  std::optional<std::uint32_t> node_index;  ///< position in the Slurm step, or --node-rank
  std::string incarnation;
  std::string host;         ///< short name, for people
  std::uint32_t slots = 1;  ///< workers it will start
  std::string role = "default";
  bool coordinates = false;        ///< the coordinator runs inside this agent
  std::string announce;            ///< MASTER_ADDR to announce if this agent hosts; "" = as reached
  std::string reached_at;          ///< address of the coordinator's end of the connection; set by the server
  std::string calls_from;          ///< address of the agent's end; set by the server
  bool relayed = false;            ///< its connection is not proven to be its own; set by the server
  std::uint16_t standby_port = 0;  ///< where the agent listens in case it has to take over; 0: it cannot
  bool operator==(NodeInfo const&) const = default;
};

struct Join {
  NodeInfo node;
  std::optional<Terms> terms;  ///< none: those of the run, whatever they are (--join)
  bool operator==(Join const&) const = default;
};
/// Time of the sender's own clock, in microseconds. Others send it back; they never compare it with theirs.
using OwnTime = std::int64_t;

/// "I have generation `number` and am ready to start it."
struct Ack {
  std::uint64_t number = 0;
  OwnTime echo = 0;  ///< of Prepare::sent
  OwnTime sent = 0;
  bool operator==(Ack const&) const = default;
};
/// A seat of which nothing runs any more: of a member that led, whose connection ended in order, and whose standby port
/// was refused after that; or the sender's own, before it joined as somebody new.
struct DeadSeat {
  std::uint32_t rank = 0;  ///< its group rank
  Millis known_for{0};     ///< since the refusal, or since its workers were gone
  bool operator==(DeadSeat const&) const = default;
};
/// First message to whoever may take over, instead of Join: what this agent knows. Sent again when that has changed.
struct FollowerInfo {
  NodeInfo node;
  Decree decided;                              ///< the last one this agent knows to be decided
  std::optional<std::uint32_t> rank;           ///< its group rank there; nothing: a spare or newcomer, without a vote
  std::uint64_t prepared = 0;                  ///< a later generation that it is ready for, 0 = none
  std::optional<std::uint32_t> prepared_rank;  ///< its group rank there
  std::uint64_t prepared_members = 0;          ///< its decree's: another coordinator's may have the same number
  std::uint64_t seen = 0;                      ///< highest generation number it has ever heard of
  bool workers = false;                        ///< workers of `decided` run or may run here
  std::optional<Millis> begun_for = {};        ///< since it was told to start `decided`: nothing older runs any more
  StepsAgo steps = {};                         ///< of its workers, when they have ended
  std::vector<DeadSeat> dead = {};             ///< of `decided`, as proven to this agent; at most kMaxSuccessors
  bool operator==(FollowerInfo const&) const = default;
};
/// Answer to VoteRequest.
struct Vote {
  std::uint64_t after = 0;
  Ballot ballot;                           ///< that was asked for
  Ballot promised;                         ///< equal to `ballot`: yes; higher: no
  std::optional<AcceptedDecree> accepted;  ///< what this voter has accepted in this instance
  Millis silent_for{0};                    ///< since the last contact with the old coordinator; 0 when unsure
  bool operator==(Vote const&) const = default;
};
/// Answer to Propose.
struct Accepted {
  std::uint64_t after = 0;
  Ballot ballot;    ///< that was proposed
  Ballot promised;  ///< equal to `ballot`: accepted; higher: not
  bool operator==(Accepted const&) const = default;
};
/// The agent at this seat is dead, and everything it started too. From its parent, on a connection of its own.
struct Gone {
  std::uint64_t number = 0;
  std::uint32_t group_rank = 0;
  bool operator==(Gone const&) const = default;
};
/// A worker ended badly; sent at once, without the text that explains it (that follows in Stopped).
struct WorkerFailed {
  std::uint64_t number = 0;
  WorkerExit exit;
  bool operator==(WorkerFailed const&) const = default;
};
/// Every worker of the generation exited 0 on this node.
struct Succeeded {
  std::uint64_t number = 0;
  StepsAgo steps = {};
  bool operator==(Succeeded const&) const = default;
};
/// Every worker and every descendant of the generation is reaped on this node.
struct Stopped {
  std::uint64_t number = 0;
  std::vector<WorkerExit> exits;
  std::vector<std::string> unkillable;  ///< lines naming processes that survived SIGKILL
  StepsAgo steps = {};                  ///< of this node's workers in it
  bool lacks = false;                   ///< some have ended, and the others need not wait until they are started again
  bool operator==(Stopped const&) const = default;
};
/// Answer to LeftOut: the workers of this node wait, or it has come to nothing and they are started as ever.
struct Complete {
  std::uint64_t number = 0;  ///< of the generation whose workers they were
  bool operator==(Complete const&) const = default;
};
/// The user or Slurm told this agent to end; its workers are being stopped.
struct Leaving {
  int signal = 0;
  std::string from{};  ///< "from pid 292 (kill), uid 1000"; "" = not known
  bool operator==(Leaving const&) const = default;
};
/// The health check failed: this node takes no part in generation `number` nor in a later one. Sent instead of Ack.
struct Unfit {
  std::uint64_t number = 0;
  std::string why;
  bool operator==(Unfit const&) const = default;
};
/// Workers whose collectives have not moved for a while: at most kMaxProgress. Again while they do not, once when they
/// do. And those that have left.
struct Progress {
  std::uint64_t number = 0;
  std::vector<Standstill> workers;
  std::vector<Named> named = {};         ///< by workers that have parked since; each once
  std::vector<std::uint32_t> left = {};  ///< ranks that have ended with 0 while others of this node go on; each once
  bool operator==(Progress const&) const = default;
};
/// The longest `workers` of a Progress; an agent with more tells of the first.
inline constexpr std::size_t kMaxProgress = 1024;
using ToCoordinator = std::variant<Join, Ack, WorkerFailed, Succeeded, Stopped, Leaving, Unfit, FollowerInfo, Vote,
                                   Accepted, Gone, Progress, Complete>;

// ---- coordinator to agent -----------------------------------------------------------------------

struct Prepare {
  Generation generation;
  OwnTime sent = 0;
  bool operator==(Prepare const&) const = default;
};
/// The generation is decided and every older worker is dead: run.
struct Start {
  std::uint64_t number = 0;
  OwnTime echo = 0;  ///< of Ack::sent
  Millis left{0};    ///< of the coordinator's authority: the first lease; 0 with --quorum=none or without heartbeats
  bool operator==(Start const&) const = default;
};
/// A candidate asks the members of the last generation it knows for their promise.
struct VoteRequest {
  std::uint64_t after = 0;
  Ballot ballot;
  bool operator==(VoteRequest const&) const = default;
};
/// "Accept this", to the members of generation `decree.after`.
struct Propose {
  Ballot ballot;
  Decree decree;
  bool operator==(Propose const&) const = default;
};
/// This is decided. To spares, so that they know whom to follow; and to whoever knows of an older one only.
struct Decided {
  Decree decree;
  std::vector<Successor> successors;
  bool leads = true;  ///< false: passed on by one that follows another; the coordinator is among `successors`
  bool operator==(Decided const&) const = default;
};
/// You were given up, or follow a generation that is over: you may join as somebody new.
struct Dropped {
  std::uint64_t number = 0;  ///< of the generation that runs now
  std::string why;
  bool operator==(Dropped const&) const = default;
};
/// Why workers are stopped; decides how long they get.
enum class StopKind {
  failure,  ///< a peer failed: survivors sit in a dead collective (--restart-timeout)
  resize,   ///< a node joined or left in good health (--shutdown-timeout)
  user,     ///< the job is being ended (--shutdown-timeout)
};
[[nodiscard]] constexpr char const* name_of(StopKind kind) {
  return kind == StopKind::failure ? "failure" : kind == StopKind::resize ? "resize" : "user";
}
struct Stop {
  std::uint64_t number = 0;
  StopKind kind = StopKind::failure;
  std::string why;
  bool operator==(Stop const&) const = default;
};
/// The job is over for this agent: leave with `exit_code`, after printing `line` when it is not empty.
struct Finished {
  int exit_code = 0;
  std::string line;
  std::optional<std::uint32_t> first_failure = {};  ///< its rank, when a failure is what ended the job
  bool operator==(Finished const&) const = default;
};
/// This agent is not wanted: leave with `exit_code`.
struct Refused {
  int exit_code = 0;
  std::string why;
  bool operator==(Refused const&) const = default;
};
/// This worker keeps the others waiting: unless it has moved meanwhile, find out where it is and kill it.
struct Kill {
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint64_t entered = 0;  ///< collectives that it had begun by what the coordinator knows: worker::begun_in_all()
  std::string why;            ///< for the cause: "did not enter all_reduce #812 … that 7 others waited in"
  std::optional<PeerFailure::Why> named = {};  ///< others have given it up: `entered` counts for nothing
  bool operator==(Kill const&) const = default;
};
/// Generation `number` goes on without this node, whose Stopped said that it lacks workers: start them, and answer.
struct LeftOut {
  std::uint64_t number = 0;
  bool operator==(LeftOut const&) const = default;
};
using ToAgent =
    std::variant<Prepare, Start, Stop, Finished, Refused, VoteRequest, Propose, Decided, Dropped, Kill, LeftOut>;

// ---- beside membership: whose the connections to a store are ----------------------------------------

/// The addresses of the agent's host, but for loopback: who calls from there belongs to it. Before each Ack.
struct HostAddresses {
  std::vector<std::string> addresses;  ///< at most kMaxAddresses
  bool operator==(HostAddresses const&) const = default;
};
inline constexpr std::size_t kMaxAddresses = 64;
/// To the agents at the address that these come from: whose are they?
struct WhoseCalls {
  std::uint64_t number = 0;                  ///< of the generation whose store they call
  std::vector<store::CallerQuestion> calls;  ///< at most kMaxCalls
  bool operator==(WhoseCalls const&) const = default;
};
inline constexpr std::size_t kMaxCalls = 64;
/// The answer, of all that was asked.
struct Owners {
  std::uint64_t number = 0;
  std::vector<store::OwnerFound> owners;
  bool operator==(Owners const&) const = default;
};
using AboutCallers = std::variant<HostAddresses, Owners>;
using AskHost = std::variant<WhoseCalls>;

/// What comes on the connection between an agent and its coordinator, after the handshake.
using FromAgent = std::variant<ToCoordinator, AboutCallers>;
using FromCoordinator = std::variant<ToAgent, AskHost>;

// ---- heartbeats, on their own connection ----------------------------------------------------------

/// A member's sign of life.
struct Beat {
  OwnTime sent = 0;
  OwnTime echo = 0;          ///< newest BeatAck::sent of this coordinator; 0: none yet, or promised to somebody else
  std::uint64_t number = 0;  ///< generation whose seat it holds; 0: none
  bool operator==(Beat const&) const = default;
};
/// The coordinator's answer to one beat.
struct BeatAck {
  OwnTime echo = 0;  ///< of Beat::sent
  OwnTime sent = 0;
  Millis left{0};            ///< of the coordinator's authority over `number`
  std::uint64_t number = 0;  ///< generation that this lease is for; 0: none runs
  bool operator==(BeatAck const&) const = default;
};

/// Hello, HelloReply, ToCoordinator (exits' texts are cut to fit one frame), ToAgent, AboutCallers, AskHost, Beat and
/// BeatAck as text; and back, the four in the middle also by FromAgent and FromCoordinator.
template <class Message>
[[nodiscard]] std::string encode(Message const& message);
template <class Message>
[[nodiscard]] Result<Message> decode(std::string_view text);

}  // namespace cxxrun::rendezvous
