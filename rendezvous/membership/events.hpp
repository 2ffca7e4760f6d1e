// What happens to membership (Event) and what it wants done (Action). Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/state.hpp"

namespace cxxrun::rendezvous {

struct Opened {};  ///< the coordinator has started
/// The coordinator's own agent campaigns: it has lost the one that was. In phase standby, or again in
/// electing with a higher ballot.
struct Campaign {
  Decree decided;  ///< the last one it knows
  Ballot ballot;
  std::uint64_t seen = 0;          ///< highest generation number it has heard of
  std::uint32_t restarts = 0;      ///< consumed
  std::vector<std::string> hosts;  ///< of the members by group rank, for people; may be empty
  bool pair = false;       ///< exactly two members and two nodes, no spare and no stranger ever: the pair rule may hold
  bool peer_dead = false;  ///< with `pair`: the other's FIN and its refused standby port have proven it dead
  std::uint64_t campaign_id = 0;  ///< counts those of this agent
  Millis half_after{0};           ///< exactly half of the votes, with a fence, do only when no more came for so long
  std::vector<Successor> successors = {};  ///< of `decided`
  bool operator==(Campaign const&) const = default;
};
/// The coordinator's own agent gives its campaign up, or follows another.
struct Withdraw {
  std::string why;
};
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
/// The fence file after `after` holds this now; ours if we were first. Nothing: it could not be read or made.
struct Fenced {
  std::uint64_t after = 0;
  std::optional<AcceptedDecree> holds;
  std::string why;
};
struct Joined {
  AgentId agent;
  NodeInfo node;
};
/// The connection ended. FIN and RST mean that the process is gone.
struct Lost {
  AgentId agent;
  std::string how;
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
  std::variant<Ack, WorkerFailed, Succeeded, Stopped, Leaving, Unfit, Vote, Accepted, Progress> message;
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
/// This coordinator decides nothing any more; its own agent has to look for another. Close follows.
struct SteppedDown {
  std::string why;
  std::uint64_t campaign_id = 0;  ///< the last one it has heard of: whoever has campaigned again since is not meant
  bool operator==(SteppedDown const&) const = default;
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
