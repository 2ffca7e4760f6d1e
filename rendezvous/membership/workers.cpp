#include "rendezvous/membership/workers.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/roster.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kTogether{1000};  // reports of several agents within this time become one line

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

/// A failure without the end of a process: the blamed rank has ended with 0, or it waits like the others.
WorkerExit failure_without_end(Seat const& seat, BlameOrder const& order) {
  WorkerExit exit;
  exit.rank = order.rank;
  exit.local_rank = order.rank - seat.rank_base;
  exit.hung = order.why;
  return exit;
}

Next stop_for_blamed(State& state, Seat const& seat, BlameOrder const& order) {
  state.group.reports.push_back({state.group.seat_of.at(seat.agent), failure_without_end(seat, order)});
  return stop_for(state.group.reports.back().exit, seat.node.host);
}

Next judge_reports(Turn& turn) {
  State& state = turn.state;
  auto const judged = judge_blame(state.blame, world_of(state), turn.now);
  for (auto const& order : judged.orders) {
    Seat const* const seat = seat_with(state, order.rank);
    if (seat == nullptr) {
      continue;
    }
    turn.say(Level::warn, rank_name(order.rank, seat->node.host) + " " + order.why);
    if (seat->now == Seat::Now::succeeded) {
      return stop_for_blamed(state, *seat, order);
    }
    turn.act(Tell{seat->agent, Kill{state.number, order.rank, 0, order.why, order.reason}});
  }
  if (Seat const* const seat = judged.most_blamed ? seat_with(state, judged.most_blamed->rank) : nullptr) {
    return stop_for_blamed(state, *seat, *judged.most_blamed);
  }
  if (!judged.stop) {
    return stay;
  }
  assert(!state.group.reports.empty());  // of the worker whose end began this
  auto const& first = state.group.reports.front();
  return stop_for(first.exit, state.group.seats[first.group_rank].node.host);
}

/// A worker has failed. If it blames a peer, that peer's own end may still come.
Next on_failure(Turn& turn, Seat const& seat, WorkerExit const& exit) {
  if (!fails_for_a_peer(exit)) {
    return stop_for(exit, seat.node.host);
  }
  State& state = turn.state;
  add_report(state.blame, {exit.rank, *exit.lost}, true, world_of(state), turn.now);
  return judge_reports(turn);
}

/// All workers of this node have ended with 0; the others may wait for one of them.
Next on_success(Turn& turn, Seat const& seat) {
  State& state = turn.state;
  note_leavers(state.leavers, seat.rank_base, seat.node.slots, seat.node.host, turn.now, kLeftFor + kTogether);
  order_again(state.blame, seat.rank_base, seat.node.slots);  // its agent cannot carry out an earlier order any more
  return state.blame.reports.empty() ? Next{stay} : judge_reports(turn);
}

}  // namespace

Next handle(Turn& turn, Seat& seat, WorkerFailed const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running && state.phase != Phase::stopping) {
    return stay;
  }
  state.group.reports.push_back(Report{state.group.seat_of.at(seat.agent), message.exit});
  turn.tell(story::WorkerFailed{state.number, message.exit.rank, seat.node.host,
                                message.exit.hung.empty() ? message.exit.status.describe() : message.exit.hung});
  if (state.phase == Phase::stopping) {
    return stay;
  }
  return on_failure(turn, seat, message.exit);
}

Next handle(Turn& turn, Seat& seat, Succeeded const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running || seat.now != Seat::Now::running) {
    return stay;
  }
  seat.now = Seat::Now::succeeded;
  note_steps(state.ledger, message.steps, turn.now);
  if (--state.group.awaited > 0) {
    return on_success(turn, seat);
  }
  turn.act(CloseStore{state.number});
  return next::Finished{make_verdict(state, turn.policy, End::success, 0, "all workers finished")};
}

Next handle(Turn& turn, Seat& seat, Progress const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running || seat.now != Seat::Now::running) {
    return stay;
  }
  auto told = message.workers;
  std::erase_if(told, [&](Standstill const& each) { return !holds(seat, each.rank); });
  on_standstills(state.hangs, seat.node.host, told, turn.now, {turn.policy.hang_timeout});
  for (std::uint32_t const rank : message.left) {
    if (holds(seat, rank)) {
      note_leavers(state.leavers, rank, 1, seat.node.host, turn.now, kTogether);
    }
  }
  for (Named const& named : message.named) {
    if (holds(seat, named.rank)) {
      add_report(state.blame, named, false, world_of(state), turn.now);
      turn.say(Level::debug, rank_name(named.rank, seat.node.host) + " has given up rank " +
                                 std::to_string(named.lost.rank) + " and waits");
    }
  }
  return message.named.empty() ? Next{stay} : judge_reports(turn);
}

Next blame_tick(Turn& turn) {
  bool const due = turn.state.phase == Phase::running && is_due(turn.state.blame.due, turn.now);
  return due ? judge_reports(turn) : stay;
}

void hang_tick(Turn& turn) {
  State& state = turn.state;
  if (state.phase != Phase::running || !is_due(state.hangs.due, turn.now)) {
    return;
  }
  auto judged = judge_hangs(state.hangs, world_of(state), turn.now, {turn.policy.hang_timeout});
  if (!judged.line.empty()) {
    turn.say(Level::warn, judged.line, "hang");
    turn.tell(story::Hang{state.number, std::move(judged.line)});
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
  if (auto const line = tell_leavers(state.leavers, world_of(state)); !line.empty()) {
    turn.say(Level::info, line);
  }
}

}  // namespace cxxrun::rendezvous
