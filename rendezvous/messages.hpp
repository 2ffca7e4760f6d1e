// Messages between agents and the coordinator, as values, and their JSON text.
//
// Byte layout: docs/wire_protocol.md. Decoding is total: any text gives a message or an Error, nothing throws,
// nothing grows beyond the frame that carried it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/generation.hpp"
#include "rendezvous/worker_exit.hpp"
#include "src/core/time.hpp"

namespace cxxrun::rendezvous {

/// Version of everything below; a peer of another version is refused by name.
inline constexpr std::uint32_t kProtocolVersion = 2;

// ---- the handshake ------------------------------------------------------------------------------

/// First frame of a connection, agent to coordinator.
struct Hello {
  enum class Purpose { agent, beat };  ///< beat: heartbeats only, so that data never delays them
  /// Which run the agent wants; run_table.hpp decides.
  enum class Asks {
    meet,    ///< the run of this id, which the agent that hosts has opened
    open,    ///< the run of this id, opened now if there is none: an id used once, like Slurm's job and step
    reopen,  ///< the same, but once its run is over the id names a new one (--rdzv-id)
    enter,   ///< to be one more node of a run that is under way: of this id, or the only one when it is ""
  };
  std::uint32_t version = kProtocolVersion;
  std::string run_id;
  std::string nonce;  ///< the agent's incarnation: random, new at every start
  Purpose purpose = Purpose::agent;
  Asks asks = Asks::meet;
  bool operator==(Hello const&) const = default;
};

/// The coordinator's answer. `refused` non-empty: the connection closes after this frame.
struct HelloReply {
  enum class Why { accepted, other_job, other_version };
  std::uint32_t version = kProtocolVersion;
  std::string coordinator;      ///< the coordinator's nonce: an agent that hosts recognises itself by it
  std::string run_id;           ///< of the run the agent would be in
  Millis heartbeat_timeout{0};  ///< of that run, for an agent that brings no terms
  Why why = Why::accepted;
  std::string refused;
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
  bool hosts = false;      ///< the coordinator runs inside this agent
  std::string announce;    ///< MASTER_ADDR to announce if this agent hosts; "" = as reached
  std::string reached_at;  ///< address of the coordinator's end of the connection; set by the server
  std::string calls_from;  ///< address of the agent's end; set by the server
  bool operator==(NodeInfo const&) const = default;
};

/// What the user asked for, the same for every agent of a run. The agents bring it: a coordinator that serves a whole
/// job knows nothing of it before the first one joins.
struct Terms {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::optional<std::uint32_t> expected_nodes;  ///< nodes of the Slurm step: who comes without being added by hand
  std::uint32_t max_restarts = 3;
  Millis join_window{5000};        ///< first generation: wait this long for more once MIN is reached
  Millis rejoin_window{5000};      ///< later generations, when somebody is missing
  Millis join_timeout{600'000};    ///< MIN not reached by then: too few nodes
  Millis ack_timeout{30'000};      ///< a member that does not answer Prepare is dropped
  Millis heartbeat_timeout{5000};  ///< a member silent for longer is lost; 0: never
  Millis stop_timeout{120'000};    ///< a member that does not report Stopped is dropped
  bool agent_store = true;         ///< MASTER_PORT is the store; false: a port left free for rank 0
  std::uint16_t master_port = 0;   ///< exact MASTER_PORT, 0: the kernel's choice
  bool operator==(Terms const&) const = default;
};

struct Join {
  NodeInfo node;
  std::optional<Terms> terms;  ///< none: those of the run, whatever they are (--join)
  bool operator==(Join const&) const = default;
};
/// "I have generation `number` and am ready to start it."
struct Ack {
  std::uint64_t number = 0;
  bool operator==(Ack const&) const = default;
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
  bool operator==(Succeeded const&) const = default;
};
/// Every worker and every descendant of the generation is reaped on this node.
struct Stopped {
  std::uint64_t number = 0;
  std::vector<WorkerExit> exits;
  std::vector<std::string> unkillable;  ///< lines naming processes that survived SIGKILL
  bool operator==(Stopped const&) const = default;
};
/// The user or Slurm told this agent to end; its workers are being stopped.
struct Leaving {
  int signal = 0;
  bool operator==(Leaving const&) const = default;
};
/// The health check failed: this node takes no part in generation `number` nor in a later one. Sent instead of Ack.
struct Unfit {
  std::uint64_t number = 0;
  std::string why;
  bool operator==(Unfit const&) const = default;
};
using ToCoordinator = std::variant<Join, Ack, WorkerFailed, Succeeded, Stopped, Leaving, Unfit>;

// ---- coordinator to agent -----------------------------------------------------------------------

struct Prepare {
  Generation generation;
  bool operator==(Prepare const&) const = default;
};
struct Start {
  std::uint64_t number = 0;
  bool operator==(Start const&) const = default;
};
/// Why workers are stopped; decides how long they get.
enum class StopKind {
  failure,  ///< a peer failed: survivors sit in a dead collective (--restart-timeout)
  resize,   ///< a node joined or left in good health (--shutdown-timeout)
  user,     ///< the job is being ended (--shutdown-timeout)
};
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
  bool operator==(Finished const&) const = default;
};
/// This agent is not wanted: leave with `exit_code`.
struct Refused {
  int exit_code = 0;
  std::string why;
  bool operator==(Refused const&) const = default;
};
using ToAgent = std::variant<Prepare, Start, Stop, Finished, Refused>;

[[nodiscard]] std::string encode(Hello const& hello);
[[nodiscard]] std::string encode(HelloReply const& reply);
[[nodiscard]] std::string encode(ToCoordinator const& message);  ///< exits' texts are cut to fit one frame
[[nodiscard]] std::string encode(ToAgent const& message);

Result<Hello> decode_hello(std::string_view text);
Result<HelloReply> decode_hello_reply(std::string_view text);
Result<ToCoordinator> decode_to_coordinator(std::string_view text);
Result<ToAgent> decode_to_agent(std::string_view text);

}  // namespace cxxrun::rendezvous
