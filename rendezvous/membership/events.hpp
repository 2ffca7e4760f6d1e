// What happens to membership (Event) and what it wants done (Action). Values only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"
#include "rendezvous/values/ended.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::rendezvous {

struct Opened {};  ///< the coordinator has started
/// An agent that has lost its coordinator presents itself here. Again when what it knows has changed.
struct FollowerCalled {
  AgentId agent;
  FollowerInfo follower_info;
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
/// The parent of a dead agent has sent its death notice.
struct ConfirmedDead {
  Gone gone;
};
struct Joined {
  AgentId agent;
  NodeInfo node;
};
/// The connection ended.
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
struct Tick {};
using Event = std::variant<Opened, Joined, Lost, StoreOpened, StoreFailed, Said, Quit, Tick, Campaign, Withdraw,
                           Learned, FollowerCalled, Beaten, BeatsEnded, ConfirmedDead, Fenced>;

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
    std::variant<Tell, TellBeat, OpenStore, CloseStore, HangUp, ArmTimer, ClaimFence, SteppedDown, Conclude, Close>;

}  // namespace cxxrun::rendezvous
