// Messages between agents and the coordinator, as values, and their JSON text.
//
// Layout: docs/design/wire_protocol.md; names of the fields: message_fields.hpp. Decoding is total: any text gives a
// message or an Error, nothing throws, and memory is bounded by the frame that carried the text.
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
#include "rendezvous/values/job_end.hpp"
#include "rendezvous/values/progress.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/time.hpp"
#include "src/base/store/admission.hpp"

namespace cxxrun::rendezvous {

/// Version of all messages below; a peer of another version is refused with both numbers.
inline constexpr std::uint32_t kProtocolVersion = 1;

/// What the user asked for; the same for every agent of a run. Agents bring it along: a coordinator that serves a whole
/// job learns it from the first agent that joins.
struct Terms {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> expected_nodes;  ///< nodes of the Slurm step, which join without being added by hand
  std::uint32_t max_restarts = 3;
  bool max_restarts_given = false;  ///< then no failure ends the run before all restarts are used
  Millis join_window{5000};         ///< first generation: wait this long for more nodes once MIN is reached
  Millis rejoin_window{5000};       ///< the same for later generations, if a node is missing
  Millis join_timeout{600'000};     ///< MIN not reached within this time: too few nodes
  Millis ack_timeout{30'000};       ///< a member that does not answer Prepare is dropped
  Millis heartbeat_timeout{5000};   ///< a member silent for longer is lost; 0: never
  Millis stop_timeout{120'000};     ///< a member that does not report Stopped is dropped
  bool agent_store = true;          ///< MASTER_PORT is the store; false: a port left free for rank 0
  std::uint16_t master_port = 0;    ///< exact MASTER_PORT, 0: the kernel's choice
  Tie tie = Tie::rank;              ///< --quorum, --fence
  bool scale_out_now = true;        ///< --scale-out=now; false: new nodes wait for the next restart
  Millis restart_window{0};         ///< --restart-window: max_restarts within this time; 0: within the job's life
  Millis restart_delay{30'000};     ///< --restart-delay: the longest wait before a restart
  Millis hang_timeout{0};           ///< --hang-timeout: kill a worker that others wait for longer; 0: never
  store::StoreAccess store_access = store::StoreAccess::user;
  std::string fence_dir;  ///< --fence, for agents that join with --join; "" = none
  bool operator==(Terms const&) const = default;
};

// ---- the handshake ------------------------------------------------------------------------------

/// First frame of a connection, agent to coordinator.
struct Hello {
  enum class Purpose {
    agent,
    beat,          ///< heartbeats only, so that data never delays them
    death_notice,  ///< from an agent's parent: the agent and everything it started are dead; Gone follows
  };
  /// Which run the agent wants; net/run_table.hpp decides.
  enum class Asks {
    meet,    ///< the run of this id, opened by the agent that hosts it
    open,    ///< the run of this id, opened now if there is none; for ids used once, like Slurm's job and step
    reopen,  ///< the same, but after the end of its run the id names a new one (--rdzv-id)
    enter,   ///< a run that is under way, to add a node to it: of this id, or the only one if the id is ""
    follow,  ///< the run's next coordinator: sent to a standby port; FollowerInfo follows
  };
  std::uint32_t version = kProtocolVersion;
  std::string run_id;
  std::string nonce;  ///< the agent's incarnation: random, new at every start
  Purpose purpose = Purpose::agent;
  Asks asks = Asks::meet;
  BothEnds ends = {};           ///< of this connection, as the caller sees them
  std::string local_addr = {};  ///< --local-addr: the address at which others see this agent
  bool operator==(Hello const&) const = default;
};

/// The coordinator's answer. `refused` non-empty: the connection closes after this frame.
struct HelloReply {
  enum class Why {
    accepted,
    other_job,
    other_version,
    relayed,  ///< a relay passes this connection on, so its addresses prove nothing
  };
  std::uint32_t version = kProtocolVersion;
  std::string coordinator;     ///< the coordinator's nonce; a hosting agent recognises itself by it
  std::string run_id;          ///< of the run that the agent would join
  std::optional<Terms> terms;  ///< of that run, for an agent that brings none (--join)
  Why why = Why::accepted;
  std::string refused;
  BothEnds seen;  ///< ends of this connection, as the coordinator sees them
  bool operator==(HelloReply const&) const = default;
};

// ---- agent to coordinator -----------------------------------------------------------------------

/// What an agent reports about itself when it joins.
struct NodeInfo {
  std::optional<std::uint32_t> node_index;  ///< position in the Slurm step, or --node-rank
  std::string incarnation;
  std::string host;         ///< short name, for people
  std::uint32_t slots = 1;  ///< workers it will start
  std::string role = "default";
  bool coordinates = false;        ///< the coordinator runs inside this agent
  std::string announce;            ///< MASTER_ADDR to announce if this agent hosts; "" = the address it is reached at
  std::string reached_at;          ///< address of the coordinator's end of the connection; set by the coordinator
  std::string calls_from;          ///< address of the agent's end; set by the coordinator
  bool relayed = false;            ///< its connection may be a relay's; set by the coordinator
  std::uint16_t standby_port = 0;  ///< where the agent listens in case it has to take over; 0: it cannot
  bool operator==(NodeInfo const&) const = default;
};

struct Join {
  NodeInfo node;
  std::optional<Terms> terms;            ///< none: it accepts those of the run (--join)
  std::optional<TimeLeft> job_end = {};  ///< when the job ends, as far as it knows; none with --join
  bool operator==(Join const&) const = default;
};
/// Time of the sender's own clock, in microseconds. Others echo it, and never compare it with their own clocks.
using OwnTime = std::int64_t;
[[nodiscard]] inline OwnTime own_time(TimePoint at) {
  return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}
[[nodiscard]] inline TimePoint time_of(OwnTime at) {
  return TimePoint{std::chrono::microseconds{at}};
}

/// "I have generation `number` and am ready to start it."
struct Ack {
  std::uint64_t number = 0;
  OwnTime echo = 0;  ///< of Prepare::sent
  OwnTime sent = 0;
  bool operator==(Ack const&) const = default;
};
/// A seat whose agent and workers are dead: of a coordinator whose connection ended in order and whose standby port
/// then refused a call; or the sender's own seat, before it joined again under a new incarnation.
struct DeadSeat {
  std::uint32_t rank = 0;  ///< group rank
  Millis known_for{0};     ///< since the refusal, or since its workers were gone
  bool operator==(DeadSeat const&) const = default;
};
/// First message to an agent that may take over, instead of Join. Sent again when it changes.
struct FollowerInfo {
  NodeInfo node;
  Decree decided;                              ///< the newest decree that this agent knows to be decided
  std::optional<std::uint32_t> rank;           ///< its group rank there; nothing: a spare or newcomer, without a vote
  std::uint64_t prepared = 0;                  ///< a later generation that it is ready for; 0 = none
  std::optional<std::uint32_t> prepared_rank;  ///< its group rank there
  std::uint64_t prepared_members = 0;          ///< Decree::members there: two coordinators may use the same number
  std::uint64_t seen = 0;                      ///< highest generation number it has ever heard of
  bool workers = false;                        ///< workers of `decided` run or may run here
  std::optional<Millis> begun_for = {};        ///< since it was told to start `decided`, so nothing older runs
  StepsAgo steps = {};                         ///< of its workers, if they have ended
  std::vector<DeadSeat> dead = {};             ///< of `decided`, as proven to this agent; at most kMaxSuccessors
  bool operator==(FollowerInfo const&) const = default;
};
/// Answer to VoteRequest.
struct Vote {
  std::uint64_t after = 0;
  Ballot ballot;                           ///< of the request
  Ballot promised;                         ///< equal to `ballot`: yes; higher: no
  std::optional<AcceptedDecree> accepted;  ///< what this voter has accepted in this instance
  Millis silent_for{0};                    ///< since the last contact with the old coordinator; 0 if unsure
  bool operator==(Vote const&) const = default;
};
/// Answer to Propose.
struct Accepted {
  std::uint64_t after = 0;
  Ballot ballot;    ///< of the proposal
  Ballot promised;  ///< equal to `ballot`: accepted; higher: not accepted
  bool operator==(Accepted const&) const = default;
};
/// The agent at this seat and everything it started are dead. From its parent, on a separate connection.
struct Gone {
  std::uint64_t number = 0;
  std::uint32_t group_rank = 0;
  bool operator==(Gone const&) const = default;
};
/// A worker failed. Sent at once, without the text that explains it, which follows in Stopped.
struct WorkerFailed {
  std::uint64_t number = 0;
  WorkerExit exit;
  bool operator==(WorkerFailed const&) const = default;
};
/// Every worker of the generation on this node exited with 0.
struct Succeeded {
  std::uint64_t number = 0;
  StepsAgo steps = {};
  bool operator==(Succeeded const&) const = default;
};
/// Every worker of the generation on this node and all their descendants are reaped.
struct Stopped {
  std::uint64_t number = 0;
  std::vector<WorkerExit> exits;
  std::vector<std::string> unkillable;  ///< one line for each process that survived SIGKILL
  StepsAgo steps = {};                  ///< of this node's workers in it
  bool lacks = false;                   ///< some workers have ended; the job need not wait until they run again
  bool operator==(Stopped const&) const = default;
};
/// Answer to LeftOut: this node's workers are ready and wait, or that failed and they are started as usual.
struct Complete {
  std::uint64_t number = 0;  ///< the generation that they were workers of
  bool operator==(Complete const&) const = default;
};
/// The user or Slurm told this agent to end; its workers are being stopped.
struct Leaving {
  int signal = 0;
  std::string from{};  ///< "from pid 292 (kill), uid 1000"; "" = not known
  bool operator==(Leaving const&) const = default;
};
/// The health check failed: this node takes part in no generation from `number` on. Sent instead of Ack.
struct Unfit {
  std::uint64_t number = 0;
  std::string why;
  bool operator==(Unfit const&) const = default;
};
/// Workers whose collectives have not moved for a while. Repeated while they stall, and sent once when they move again.
struct Progress {
  std::uint64_t number = 0;
  std::vector<Standstill> workers;       ///< at most kMaxProgress
  std::vector<Named> named = {};         ///< peers given up by workers that have parked since; each once
  std::vector<std::uint32_t> left = {};  ///< ranks that exited with 0 while others of this node continue; each once
  bool operator==(Progress const&) const = default;
};
/// An agent with more stalled workers reports the first ones.
inline constexpr std::size_t kMaxProgress = 1024;
using ToCoordinator = std::variant<Join, Ack, WorkerFailed, Succeeded, Stopped, Leaving, Unfit, FollowerInfo, Vote,
                                   Accepted, Gone, Progress, Complete>;

// ---- coordinator to agent -----------------------------------------------------------------------

struct Prepare {
  Generation generation;
  OwnTime sent = 0;
  std::optional<TimeLeft> job_end = {};  ///< for all members alike; none: the coordinator does not know
  bool operator==(Prepare const&) const = default;
};
/// The generation is decided and every older worker is dead: run.
struct Start {
  std::uint64_t number = 0;
  OwnTime echo = 0;  ///< of Ack::sent
  Millis left{0};    ///< the first lease: what is left of the coordinator's authority; 0 without leases
  bool operator==(Start const&) const = default;
};
/// A candidate asks the members of the last generation that it knows for their promise.
struct VoteRequest {
  std::uint64_t after = 0;
  Ballot ballot;
  bool operator==(VoteRequest const&) const = default;
};
/// Asks the members of generation `decree.after` to accept the decree.
struct Propose {
  Ballot ballot;
  Decree decree;
  bool operator==(Propose const&) const = default;
};
/// The decree is decided. Sent to spares, so that they know whom to follow, and to agents that know an older one only.
struct Decided {
  Decree decree;
  std::vector<Successor> successors;
  bool leads = true;  ///< false: the sender is a follower; the coordinator is among `successors`
  bool operator==(Decided const&) const = default;
};
/// This agent was given up, or follows a generation that is over: it may join again under a new incarnation.
struct Dropped {
  std::uint64_t number = 0;  ///< the generation that runs now
  std::string why;
  bool operator==(Dropped const&) const = default;
};
/// Why workers are stopped. Decides their grace.
enum class StopKind {
  failure,  ///< a peer failed, so survivors are stuck in a dead collective (--restart-timeout)
  resize,   ///< a node joined or left in good health (--shutdown-timeout)
  user,     ///< the job is being ended (--shutdown-timeout)
  drain,    ///< a person wants this node out of the job: as resize, but it keeps no worker and takes part no more
};
[[nodiscard]] constexpr char const* name_of(StopKind kind) {
  switch (kind) {
    case StopKind::failure: return "failure";
    case StopKind::resize: return "resize";
    case StopKind::user: return "user";
    case StopKind::drain: break;
  }
  return "drain";
}
struct Stop {
  std::uint64_t number = 0;
  StopKind kind = StopKind::failure;
  std::string why;
  bool operator==(Stop const&) const = default;
};
/// The job is over for this agent: print `line` unless it is empty, and exit with `exit_code`.
struct Finished {
  int exit_code = 0;
  std::string line;
  std::optional<std::uint32_t> first_failure = {};  ///< rank of the failure that ended the job
  bool operator==(Finished const&) const = default;
};
/// This agent may not take part: exit with `exit_code`.
struct Refused {
  int exit_code = 0;
  std::string why;
  bool operator==(Refused const&) const = default;
};
/// This worker keeps the others waiting. Unless it has moved since, record where it is and kill it.
struct Kill {
  std::uint64_t number = 0;
  std::uint32_t rank = 0;
  std::uint64_t entered = 0;  ///< collectives that the coordinator knows it to have begun: worker::begun_in_all()
  std::string why;            ///< for the cause: "did not enter all_reduce #812 … that 7 others waited in"
  std::optional<PeerFailure::Why> named = {};  ///< set: peers have given it up, and `entered` is ignored
  bool operator==(Kill const&) const = default;
};
/// Generation `number` continues without this node, whose Stopped said that it lacks workers: start them and answer.
struct LeftOut {
  std::uint64_t number = 0;
  bool operator==(LeftOut const&) const = default;
};
using ToAgent =
    std::variant<Prepare, Start, Stop, Finished, Refused, VoteRequest, Propose, Decided, Dropped, Kill, LeftOut>;

// ---- beside membership: which user owns a connection to a store -------------------------------------

/// The addresses of the agent's host without loopback; callers at these belong to it. Sent before each Ack.
struct HostAddresses {
  std::vector<std::string> addresses;  ///< at most kMaxAddresses
  bool operator==(HostAddresses const&) const = default;
};
inline constexpr std::size_t kMaxAddresses = 64;
/// Asks the agents at the address of these callers which user owns each connection.
struct WhoseCalls {
  std::uint64_t number = 0;                  ///< the generation whose store they call
  std::vector<store::CallerQuestion> calls;  ///< at most kMaxCalls
  bool operator==(WhoseCalls const&) const = default;
};
inline constexpr std::size_t kMaxCalls = 64;
/// The answer to WhoseCalls, for all its calls.
struct Owners {
  std::uint64_t number = 0;
  std::vector<store::OwnerFound> owners;
  bool operator==(Owners const&) const = default;
};
using AboutCallers = std::variant<HostAddresses, Owners>;
using AskHost = std::variant<WhoseCalls>;

// ---- the live view (docs/use/live.md) -------------------------------------------------------------
// On the same connection as membership's messages. No lease, vote or state depends on them.

/// How far the workers of a node are. Sent at the interval that the coordinator sets (Pace).
struct NodePulse {
  std::uint64_t number = 0;     ///< generation of its workers; 0: none run
  std::uint32_t rank_base = 0;  ///< rank of the first worker
  /// Numbers for each worker, by local rank; launcher/live/live.hpp names them. An older agent leaves out the last
  /// ones.
  std::uint32_t width = 1;
  std::vector<std::int64_t> figures;  ///< at most kMaxFigures; an incomplete last worker is ignored
  StepsAgo steps = {};                ///< of these workers together
  std::optional<Millis> saved = {};   ///< age of what their newest checkpoint holds; unset: none is known
  bool operator==(NodePulse const&) const = default;
};
inline constexpr std::size_t kMaxFigures = 65536;
/// A question: from a program on the agent's node to the coordinator, or from the coordinator to an agent.
struct Ask {
  std::uint64_t id = 0;  ///< chosen by the sender; the answers carry it
  std::string text;      ///< launcher/live/question.hpp; at most kMaxAsk bytes
  bool operator==(Ask const&) const = default;
};
inline constexpr std::size_t kMaxAsk = 512;
/// A part of the answer: lines of JSON, which are passed on unread.
struct Told {
  std::uint64_t id = 0;
  std::string text;   ///< at most kMaxTold bytes
  bool more = false;  ///< another part follows
  bool operator==(Told const&) const = default;
};
/// In a frame a byte may take six: a control character is written as \u001b.
inline constexpr std::size_t kMaxTold = std::size_t{128} << 10U;
/// Sets the interval of an agent's pulses.
struct Pace {
  Millis every{5000};
  bool gpus = false;  ///< with figures of GPUs
  bool operator==(Pace const&) const = default;
};
using LiveUp = std::variant<NodePulse, Ask, Told>;
using LiveDown = std::variant<Pace, Ask, Told>;

/// Every message between an agent and its coordinator, after the handshake.
using FromAgent = std::variant<ToCoordinator, AboutCallers, LiveUp>;
using FromCoordinator = std::variant<ToAgent, AskHost, LiveDown>;

// ---- heartbeats, on their own connection ----------------------------------------------------------

/// A member's sign of life.
struct Beat {
  OwnTime sent = 0;
  OwnTime echo = 0;          ///< newest BeatAck::sent of this coordinator; 0: none, or another one has its promise
  std::uint64_t number = 0;  ///< generation in which it has a seat; 0: none
  bool operator==(Beat const&) const = default;
};
/// The coordinator's answer to one beat.
struct BeatAck {
  OwnTime echo = 0;  ///< of Beat::sent
  OwnTime sent = 0;
  Millis left{0};            ///< the lease: what is left of the coordinator's authority over `number`
  std::uint64_t number = 0;  ///< generation of the lease; 0: none runs
  bool operator==(BeatAck const&) const = default;
};

/// For Hello, HelloReply, ToCoordinator, ToAgent, AboutCallers, AskHost, LiveUp, LiveDown, Beat and BeatAck; decode()
/// for FromAgent and FromCoordinator, too. encode() cuts the texts of worker exits so that the message fits a frame.
template <class Message>
[[nodiscard]] std::string encode(Message const& message);
template <class Message>
[[nodiscard]] Result<Message> decode(std::string_view text);

}  // namespace cxxrun::rendezvous
