// Books: who is here, who was lost, who is owed a death notice. Everybody in membership uses them; they call nobody,
// and decide nothing.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/membership/turn.hpp"

namespace cxxrun::rendezvous {

[[nodiscard]] inline bool leases_on(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && policy.tie != Tie::none;
}
/// A generation that a member leads can go on without its coordinator.
[[nodiscard]] inline bool may_be_succeeded(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && !policy.ends_when_empty;
}
/// Somebody may be elected in the place of this coordinator: it needs a quorum's echo and acceptance.
[[nodiscard]] bool rivalled(State const& state, Policy const& policy);

/// "generation 3"
[[nodiscard]] inline std::string name_of(std::uint64_t number) {
  return "generation " + std::to_string(number);
}
/// Identity of a node across restarts of its agent: its index when it has one, else its host name.
[[nodiscard]] inline std::string node_key(NodeInfo const& node) {
  return node.node_index ? "#" + std::to_string(*node.node_index) : node.host;
}
/// Name of the member with that group rank in the generation whose coordinator was lost.
[[nodiscard]] inline std::string host_at(State const& state, std::uint32_t rank) {
  return rank < state.election.old_hosts.size() ? state.election.old_hosts[rank] : "node " + std::to_string(rank);
}
/// The agent's seat in the generation last formed; nullptr: it has none.
[[nodiscard]] Seat* find_seat(State& state, AgentId agent);
/// How many members of the generation last formed are connected, and whether all are.
[[nodiscard]] std::size_t seats_here(State const& state);
[[nodiscard]] bool all_here(State const& state);

/// How many nodes wait for a seat and could start their workers now: not those that are starting some already.
[[nodiscard]] std::size_t spares(State const& state);
/// One of them has been left out, and has its workers again; nullptr: none.
[[nodiscard]] NodeInfo const* whole_again(State const& state);

/// A node is here.
void enter(State& state, AgentId agent, NodeInfo const& node);
/// Forgets an agent: it is neither member nor spare any more.
void drop(State& state, AgentId agent);
/// Remembers that a node went away in mid-generation; perhaps the kernel killed its step for memory.
void count_loss(State& state, NodeInfo const& node, bool perhaps_oom);
/// Remembers that a member is proven dead, and from when on nothing that it started can run.
void note_dead(State& state, Held const& held, TimePoint at);
/// Remembers that a node of the step is gone until it joins again.
void mark_dead(State& state, NodeInfo const& node);
/// A node leaves the job, and is told so by `final_message`: at once, or, where the members vote and it has a vote,
/// when the next generation is decided. It counts as gone from now on in everything else.
void drain(Turn& turn, AgentId agent, ToAgent final_message);
/// Those that are draining and have no vote (any more) hear their final message.
void dismiss(Turn& turn);
/// The seats are those of the generation taken over, all of them lost.
void vacate_seats(State& state);
/// The generation that was to follow cannot run, and its number is used up: the seats are those taken over again, for
/// members that call late.
void restore_seats(State& state);

}  // namespace cxxrun::rendezvous
