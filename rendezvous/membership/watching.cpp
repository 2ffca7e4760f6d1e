#include "rendezvous/membership/watching.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/granting.hpp"
#include "src/base/core/rank_name.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kTogether{1000};  // what the agents of several nodes tell of at about the same time is one line

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

Next stop_for(WorkerExit const& exit, std::string const& host) {
  return next::Stopping{{StopKind::failure, 0, describe(exit, host), Level::error}};
}

/// Nobody else tells of it: all workers of this node have ended with 0, or it waits like the others.
WorkerExit failure_without_end(Seat const& seat, AccusedOrder const& order) {
  WorkerExit exit;
  exit.rank = order.rank;
  exit.local_rank = order.rank - seat.rank_base;
  exit.hung = order.why;
  return exit;
}

Next blame(State& state, Seat const& seat, AccusedOrder const& order) {
  state.group.reports.push_back({state.group.seat_of.at(seat.agent), failure_without_end(seat, order)});
  return stop_for(state.group.reports.back().exit, seat.node.host);
}

Next judge_accused(Turn& turn) {
  State& state = turn.state;
  auto judged = judge(std::move(state.accusing), world_of(state), turn.now);
  state.accusing = std::move(judged.next);
  for (auto const& order : judged.orders) {
    Seat const* const seat = seat_with(state, order.rank);
    if (seat == nullptr) {
      continue;
    }
    turn.say(Level::warn, rank_name(order.rank, seat->node.host) + " " + order.why);
    if (seat->now == Seat::Now::succeeded) {
      return blame(state, *seat, order);
    }
    turn.act(Tell{seat->agent, Kill{state.number, order.rank, 0, order.why, order.named}});
  }
  if (Seat const* const seat = judged.blamed ? seat_with(state, judged.blamed->rank) : nullptr) {
    return blame(state, *seat, *judged.blamed);
  }
  if (!judged.stop) {
    return stay;
  }
  auto const& first = state.group.reports.front();
  return stop_for(first.exit, state.group.seats[first.group_rank].node.host);
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
  for (std::uint32_t const rank : message.left) {
    if (holds(seat, rank)) {
      state.leavers = note_leavers(std::move(state.leavers), rank, 1, seat.node.host, turn.now, kTogether);
    }
  }
  for (Named const& named : message.named) {
    if (holds(seat, named.rank)) {
      state.accusing = accuse(std::move(state.accusing), named, false, world_of(state), turn.now);
      turn.say(Level::debug, rank_name(named.rank, seat.node.host) + " has given up rank " +
                                 std::to_string(named.lost.rank) + " and waits");
    }
  }
  return message.named.empty() ? Next{stay} : judge_accused(turn);
}

Next hear_end(Turn& turn, Seat const& seat, WorkerExit const& exit) {
  if (!fails_for_a_peer(exit)) {
    return stop_for(exit, seat.node.host);
  }
  State& state = turn.state;
  state.accusing = accuse(std::move(state.accusing), {exit.rank, *exit.lost}, true, world_of(state), turn.now);
  return judge_accused(turn);
}

Next hear_success(Turn& turn, Seat const& seat) {
  turn.state.leavers = note_leavers(std::move(turn.state.leavers), seat.rank_base, seat.node.slots, seat.node.host,
                                    turn.now, kLeftFor + kTogether);
  AccusingState& accusing = turn.state.accusing;
  accusing = order_again(std::move(accusing), seat.rank_base, seat.node.slots);  // its agent cannot answer
  return accusing.words.empty() ? Next{stay} : judge_accused(turn);
}

Next accusing_tick(Turn& turn) {
  bool const due = turn.state.phase == Phase::running && is_due(turn.state.accusing.due, turn.now);
  return due ? judge_accused(turn) : stay;
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

void leavers_tick(Turn& turn) {
  State& state = turn.state;
  if (state.phase != Phase::running || !is_due(state.leavers.due, turn.now)) {
    return;
  }
  auto told = tell_leavers(std::move(state.leavers), world_of(state));
  state.leavers = std::move(told.next);
  if (!told.line.empty()) {
    turn.say(Level::info, told.line);
  }
}

std::optional<TimePoint> next_deadline(State const& state) {
  auto const common = earliest({state.silence.due, state.leases.check_at});
  switch (state.phase) {
    case Phase::forming: return earliest({common, state.timers.join, state.timers.window, state.timers.rival});
    case Phase::running:
      return earliest({common, state.timers.scale_out, state.hanging.due, state.accusing.due, state.leavers.due});
    case Phase::stopping: return earliest({common, state.timers.answer, state.timers.late});
    case Phase::opening: return common;
    default: return earliest({common, state.timers.answer});
  }
}

}  // namespace cxxrun::rendezvous
