#include "rendezvous/membership/hang_watch.hpp"

#include <algorithm>
#include <utility>

namespace cxxrun::rendezvous {
namespace {

bool holds(Seat const& seat, std::uint32_t rank) {
  return rank >= seat.rank_base && rank - seat.rank_base < seat.node.slots;
}

std::uint32_t world_of(State const& state) {
  return state.group.seats.empty() ? 0 : state.group.seats.back().rank_base + state.group.seats.back().node.slots;
}

/// The seats are in the order of their ranks.
Seat const* seat_with(State const& state, std::uint32_t rank) {
  auto const after = std::upper_bound(state.group.seats.begin(), state.group.seats.end(), rank,
                                      [](std::uint32_t value, Seat const& seat) { return value < seat.rank_base; });
  return after == state.group.seats.begin() || !holds(*std::prev(after), rank) ? nullptr : &*std::prev(after);
}

}  // namespace

HangPolicy hang_policy(Policy const& policy) {
  return {policy.hang_timeout};
}

void hear_progress(Turn& turn, Seat const& seat, Progress const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running || seat.now != Seat::Now::running) {
    return;
  }
  auto told = message.workers;
  std::erase_if(told, [&](Standstill const& each) { return !holds(seat, each.rank); });
  state.hanging = report(std::move(state.hanging), seat.node.host, told, turn.now, hang_policy(turn.policy));
}

void hanging_tick(Turn& turn) {
  State& state = turn.state;
  if (state.phase != Phase::running || !state.hanging.due || *state.hanging.due > turn.now) {
    return;
  }
  auto judged = judge(std::move(state.hanging), world_of(state), turn.now, hang_policy(turn.policy));
  state.hanging = std::move(judged.next);
  if (!judged.line.empty()) {
    turn.say(Level::warn, judged.line);
  }
  for (auto& order : judged.orders) {
    if (Seat const* const seat = seat_with(state, order.rank)) {
      turn.act(Tell{seat->agent, Kill{state.number, order.rank, order.entered, std::move(order.why)}});
    }
  }
}

}  // namespace cxxrun::rendezvous
