#include "rendezvous/membership/starting.hpp"

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/preparing.hpp"

namespace cxxrun::rendezvous {

Next begin_lease_wait(Turn& turn) {
  Next next = try_start(turn);
  if (std::holds_alternative<next::Stay>(next) && !turn.state.leases.outstanding.empty()) {
    turn.say(Level::info, name_of(turn.state.number) + " waits until no older worker can be alive");
  }
  return next;
}

Next try_start(Turn& turn) {
  State& state = turn.state;
  Leases& leases = state.leases;
  if (state.phase != Phase::lease_wait) {
    return stay;
  }
  std::erase_if(leases.outstanding, [&](auto const& entry) { return entry.second <= turn.now; });
  state.timers.answer = lease_wait(leases, turn.now);
  if (!leases.outstanding.empty()) {
    return stay;
  }
  if (leases_on(turn.policy) && left(turn, Count::lazily) <= Millis{0}) {
    return stay;  // the next beats bring it
  }
  return next::Running{};
}

void begin_running(Turn& turn) {
  State& state = turn.state;
  Leases& leases = state.leases;
  Millis const lease = left(turn, Count::exactly);
  leases.granted.clear();
  std::erase_if(state.election.confirmed_dead, [&](Held const& held) { return held.first < state.number; });
  state.ever_ran = true;
  state.hanging = {};
  state.timers.answer.reset();
  state.group.awaited = static_cast<std::uint32_t>(state.group.seats.size());
  std::uint32_t world = 0;
  for (auto& seat : state.group.seats) {
    seat.now = Seat::Now::running;
    world += seat.node.slots;
    turn.act(Tell{seat.agent, Start{state.number, leases.pulses[seat.agent].sent, lease}});
    if (lease > Millis{0}) {
      leases.granted[seat.agent] = turn.now;
    }
  }
  if (state.roster.present.size() > state.group.seats.size()) {
    if (turn.policy.scale_out_now && state.group.seats.size() < turn.policy.max_nodes) {
      // Whoever came while this generation was being prepared. Later than now: the timer of now may have led here.
      state.timers.scale_out = turn.now + Millis{1};
    }
    for (auto const& [agent, node] : state.roster.present) {
      if (!state.group.seat_of.contains(agent)) {
        tell_decided(turn, agent);
      }
    }
  }
  turn.say(Level::info,
           name_of(state.number) + " runs: " + std::to_string(state.group.seats.size()) +
               (state.group.seats.size() == 1 ? " node, " : " nodes, ") + std::to_string(world) +
               (world == 1 ? " worker" : " workers") +
               (state.restarts.consumed == 0 ? "" : ", restarts used: " + std::to_string(state.restarts.consumed)));
}

}  // namespace cxxrun::rendezvous
