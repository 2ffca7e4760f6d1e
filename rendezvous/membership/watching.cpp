#include "rendezvous/membership/watching.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/granting.hpp"

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

void hear_beat(Turn& turn, Beaten const& event) {
  State& state = turn.state;
  AgentId const agent = event.agent;
  Roster const& roster = state.roster;
  if (roster.present.contains(agent) || state.election.followers.contains(agent) || roster.excluded.contains(agent) ||
      roster.draining.contains(agent)) {
    state.silence = heard(std::move(state.silence), agent, turn.now, {turn.policy.heartbeat_timeout});
  }
  answer_beat(turn, agent, event.beat);
}

Next hear(Turn& turn, BeatsEnded const& event) {
  State& state = turn.state;
  if (state.silence.heard.contains(event.agent)) {
    state.silence = heard(std::move(state.silence), event.agent, turn.now, {turn.policy.heartbeat_timeout});
  }
  return stay;
}

Silent silence_tick(Turn& turn) {
  State& state = turn.state;
  if (!is_due(state.silence.due, turn.now)) {
    return {};
  }
  SilenceTick looked = tick(std::move(state.silence), turn.now, {turn.policy.heartbeat_timeout});
  state.silence = std::move(looked.next);
  if (looked.stalled) {
    turn.say(Level::warn, "this process was suspended: nobody is judged by the silence meanwhile");
  }
  if (!looked.lost.empty() && state.phase == Phase::running && rivalled(state, turn.policy) &&
      left(turn, Count::exactly) <= Millis{0}) {  // the others may elect without us
    return {next::Deposed{"too few members of " + name_of(state.proposer.decided.number) + " are heard"}, {}};
  }
  return {stay, std::move(looked.lost)};
}

Next hear(Turn& turn, Seat& seat, Progress const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running || seat.now != Seat::Now::running) {
    return stay;
  }
  auto told = message.workers;
  std::erase_if(told, [&](Standstill const& each) { return !holds(seat, each.rank); });
  state.hanging = report(std::move(state.hanging), seat.node.host, told, turn.now, {turn.policy.hang_timeout});
  return stay;
}

void hanging_tick(Turn& turn) {
  State& state = turn.state;
  if (state.phase != Phase::running || !state.hanging.due || *state.hanging.due > turn.now) {
    return;
  }
  auto judged = judge(std::move(state.hanging), world_of(state), turn.now, {turn.policy.hang_timeout});
  state.hanging = std::move(judged.next);
  if (!judged.line.empty()) {
    turn.say(Level::warn, judged.line, "hang");
  }
  for (auto& order : judged.orders) {
    if (Seat const* const seat = seat_with(state, order.rank)) {
      turn.act(Tell{seat->agent, Kill{state.number, order.rank, order.entered, std::move(order.why)}});
    }
  }
}

std::optional<TimePoint> next_deadline(State const& state) {
  auto const common = earliest({state.silence.due, state.leases.check_at});
  switch (state.phase) {
    case Phase::forming: return earliest({common, state.timers.join, state.timers.window});
    case Phase::running: return earliest({common, state.timers.scale_out, state.hanging.due});
    case Phase::opening: return common;
    default: return earliest({common, state.timers.answer});
  }
}

}  // namespace cxxrun::rendezvous
