#include "rendezvous/membership/starting.hpp"

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/preparing.hpp"

namespace cxxrun::rendezvous {

Next begin_lease_wait(Turn& turn) {
  Next next = try_start(turn);
  if (std::holds_alternative<next::Stay>(next) && !turn.state.leadership.outstanding_leases.empty()) {
    turn.say(Level::info,
             "generation " + std::to_string(turn.state.number) + " waits until no older worker can be alive");
  }
  return next;
}

Next try_start(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  if (state.phase != Phase::lease_wait) {
    return stay;
  }
  std::erase_if(leadership.outstanding_leases, [&](auto const& entry) { return entry.second <= turn.now; });
  state.answer_deadline = lease_wait(leadership, turn.now);
  if (!leadership.outstanding_leases.empty()) {
    return stay;
  }
  if (leases_on(turn.policy) && left(turn, Count::lazily) <= Millis{0}) {
    return stay;  // the next beats bring it
  }
  return next::Running{};
}

void begin_running(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  Millis const lease = left(turn, Count::exactly);
  leadership.granted.clear();
  std::erase_if(leadership.confirmed_dead, [&](Held const& held) { return held.first < state.number; });
  state.ever_ran = true;
  state.hanging = {};
  state.answer_deadline.reset();
  state.awaited = static_cast<std::uint32_t>(state.seats.size());
  std::uint32_t world = 0;
  for (auto& seat : state.seats) {
    seat.now = Seat::Now::running;
    world += seat.node.slots;
    turn.act(Tell{seat.agent, Start{state.number, leadership.pulses[seat.agent].sent, lease}});
    if (lease > Millis{0}) {
      leadership.granted[seat.agent] = turn.now;
    }
  }
  if (state.present.size() > state.seats.size()) {
    if (turn.policy.scale_out_now && state.seats.size() < turn.policy.max_nodes) {
      // Whoever came while this generation was being prepared. Later than now: the timer of now may have led here.
      state.scale_out_at = turn.now + Millis{1};
    }
    for (auto const& [agent, node] : state.present) {
      if (!state.seat_of.contains(agent)) {
        tell_decided(turn, agent);
      }
    }
  }
  turn.say(Level::info, "generation " + std::to_string(state.number) + " runs: " + std::to_string(state.seats.size()) +
                            (state.seats.size() == 1 ? " node, " : " nodes, ") + std::to_string(world) +
                            (world == 1 ? " worker" : " workers") +
                            (state.restarts == 0 ? "" : ", restarts used: " + std::to_string(state.restarts)));
}

}  // namespace cxxrun::rendezvous
