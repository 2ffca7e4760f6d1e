// Roster: which nodes are here, which were lost, which are leaving. All parts of membership use it; it calls none of
// them and decides nothing.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/membership/membership_turn.hpp"

namespace cxxrun::rendezvous {

[[nodiscard]] inline bool leases_on(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && policy.tie != Tie::none;
}
/// Whether a generation whose coordinator runs in a member's agent can go on without its coordinator.
[[nodiscard]] inline bool may_be_succeeded(Policy const& policy) {
  return policy.heartbeat_timeout > Millis{0} && !policy.ends_when_empty;
}
/// Whether another coordinator may be elected in the place of this one. If so, this one needs echoes and acceptances of
/// a quorum.
[[nodiscard]] bool rivalled(State const& state, Policy const& policy);

/// "generation 3"
[[nodiscard]] inline std::string name_of(std::uint64_t number) {
  return "generation " + std::to_string(number);
}
/// Identity of a node across restarts of its agent: its index if it has one, else its host name.
[[nodiscard]] inline std::string node_key(NodeInfo const& node) {
  return node.node_index ? "#" + std::to_string(*node.node_index) : node.host;
}
/// Host of the member with this group rank in the generation whose coordinator was lost; "node 3" if unknown.
[[nodiscard]] inline std::string host_at(State const& state, std::uint32_t rank) {
  return rank < state.election.old_hosts.size() ? state.election.old_hosts[rank] : "node " + std::to_string(rank);
}
/// The agent's seat in the generation last formed; nullptr: it has none.
[[nodiscard]] Seat* find_seat(State& state, AgentId agent);
/// How many members of the generation last formed are connected, and whether all are.
[[nodiscard]] std::size_t seats_here(State const& state);
[[nodiscard]] bool all_here(State const& state);

/// How many nodes without a seat could start their workers now: not those that are starting some already.
[[nodiscard]] std::size_t spares(State const& state);
/// A node that was left out for lack of workers and has all of them again; nullptr: there is none.
[[nodiscard]] NodeInfo const* whole_again(State const& state);

/// Adds a node, or updates one that is present.
void enter(State& state, AgentId agent, NodeInfo const& node);
/// Removes an agent: it is neither member nor spare any more.
void drop(State& state, AgentId agent);
/// Records that a node was lost during a generation; perhaps the kernel killed its step for memory.
void count_loss(State& state, NodeInfo const& node, bool perhaps_oom);
/// Records that a member is proven dead: from `at` on nothing that it started can run.
void note_dead(State& state, Held const& held, TimePoint at);
/// Records that a node of the step is gone until it joins again.
void mark_dead(State& state, NodeInfo const& node);
/// A node leaves the job. It gets `final_message` at once; or, if it has a vote and the members vote, when the next
/// generation is decided. In everything else it counts as gone from now on.
void drain(Turn& turn, AgentId agent, ToAgent final_message);
/// Sends their final message to draining nodes without a vote.
void dismiss(Turn& turn);
/// Sets the seats to those of the generation taken over, all of them lost.
void vacate_seats(State& state);
/// After a takeover, the generation that was being prepared cannot run, and its number is used up. Sets the seats back
/// to those of the generation taken over, for members that call late.
void restore_seats(State& state);

}  // namespace cxxrun::rendezvous
