// What happens to membership (Event), the event that an agent's message is, and what membership wants done (Action).
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::rendezvous {

struct Opened {};  ///< the coordinator has started
/// An agent that has lost its coordinator calls here; again when what it knows has changed.
struct FollowerCalled {
  AgentId agent;
  FollowerInfo follower_info;
};
/// A beat of the agent came. The first one begins the watch for its silence.
struct Beaten {
  AgentId agent;
  Beat beat;
};
/// Its connection for beats has ended in order. It gets a full timeout again to open another one.
struct BeatsEnded {
  AgentId agent;
};
/// The parent of a dead agent has sent its death notice.
struct ConfirmedDead {
  Gone gone;
};
struct Joined {
  AgentId agent;
  NodeInfo node;
  std::optional<TimeLeft> job_end = {};  ///< when the job ends, as far as the agent knows
};
/// The agent's connection has ended.
struct Lost {
  AgentId agent;
  std::string how;
  Ended ended = Ended::broken;
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
  std::variant<Ack, WorkerFailed, Succeeded, Stopped, Leaving, Unfit, Vote, Accepted, Progress, Complete> message;
};
/// The coordinator's own process was told to end by this signal.
struct Quit {
  int signal = 0;
};
/// A person wants it (docs/use/live.md), and was shown generation `number`.
struct Wanted {
  enum class What : std::uint8_t { checkpoint, restart, drain, stop };
  What what = What::checkpoint;
  std::uint64_t number = 0;
  std::string by;         ///< "uid 1000 on node2"
  std::string node = {};  ///< to drain, as the person has typed it
};
[[nodiscard]] char const* name_of(Wanted::What what);
/// "restarted by uid 1000 on node2"
[[nodiscard]] std::string done_by(Wanted const& wanted);
struct Tick {};
using Event = std::variant<Opened, Joined, Lost, StoreOpened, StoreFailed, Said, Quit, Tick, Campaign, Withdraw,
                           Learned, FollowerCalled, Beaten, BeatsEnded, ConfirmedDead, Fenced, Wanted>;

/// What the coordinator's end of an agent's connection shows.
struct MemberEnds {
  std::string own;       ///< incarnation of the agent that this coordinator runs in
  std::string from;      ///< address of the agent's end
  std::string to;        ///< address of this end, which the agent has called
  bool relayed = false;  ///< the connection is not proven to end at the agent: it may be relayed
};

/// The event of the first message of a connection: Join or FollowerInfo. Nothing for others, which may not be first.
/// The server and the simulation pass all messages through these two functions, which fill in what `ends` shows.
[[nodiscard]] std::optional<Event> event_of_first(AgentId agent, ToCoordinator&& message, MemberEnds const& ends);
/// The event of a later message. Nothing for Join and Gone, which may not come later.
[[nodiscard]] std::optional<Event> event_of_further(AgentId agent, ToCoordinator&& message, MemberEnds const& ends);

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
/// Claim the fence file for the decision after `value.decree.after`. Fenced is the answer.
struct ClaimFence {
  AcceptedDecree value;
  bool operator==(ClaimFence const&) const = default;
};
struct OpenStore {
  std::uint64_t number;
  bool operator==(OpenStore const&) const = default;
};
struct CloseStore {
  std::uint64_t number;
  bool operator==(CloseStore const&) const = default;
};
/// Close the agent's connection once all messages to it have been written.
struct HangUp {
  AgentId agent;
  bool operator==(HangUp const&) const = default;
};
/// Send Tick at this instant. There is one timer: this replaces the previous instant.
struct ArmTimer {
  TimePoint at;
  bool operator==(ArmTimer const&) const = default;
};
/// The verdict. Emitted once.
struct Conclude {
  Verdict verdict;
  bool operator==(Conclude const&) const = default;
};
/// No agent is left: the coordinator may end. Emitted once.
struct Close {
  bool operator==(Close const&) const = default;
};
using Action =
    std::variant<Tell, TellBeat, OpenStore, CloseStore, HangUp, ArmTimer, ClaimFence, SteppedDown, Conclude, Close>;

}  // namespace cxxrun::rendezvous
