#include "rendezvous/membership/stopping.hpp"

#include <utility>

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/budget.hpp"
#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/excluding.hpp"
#include "rendezvous/membership/granting.hpp"

namespace cxxrun::rendezvous {
namespace {

Next all_answered(State const& state) {
  return state.group.awaited == 0 ? Next{next::Stopped{}} : Next{stay};
}

}  // namespace

Next begin_stopping(Turn& turn, StopReason reason) {
  State& state = turn.state;
  state.group.stop = std::move(reason);
  state.timers.scale_out.reset();
  state.group.awaited = 0;
  for (auto const& seat : state.group.seats) {
    if (!state.roster.present.contains(seat.agent) || seat.now == Seat::Now::stopped) {
      continue;
    }
    ++state.group.awaited;
    if (seat.leaving == 0) {
      turn.act(Tell{seat.agent, Stop{state.number, state.group.stop.kind, state.group.stop.why}});
    }
  }
  state.timers.answer = turn.now + turn.policy.stop_timeout;
  turn.say(state.group.stop.level, state.group.stop.why);
  return all_answered(state);
}

void begin_stopping_late(Turn& turn, AgentId agent) {
  State& state = turn.state;
  if (state.phase == Phase::forming) {  // nothing is formed before its workers have stopped
    state.group.awaited = 0;
    state.timers.window.reset();
    state.timers.answer = turn.now + turn.policy.stop_timeout;
  }
  ++state.group.awaited;
  turn.act(Tell{agent, Stop{state.number, state.group.stop.kind, state.group.stop.why}});
}

Next answered(Turn& turn) {
  --turn.state.group.awaited;
  return all_answered(turn.state);
}

Next drop_silent(Turn& turn) {
  State& state = turn.state;
  Phase const phase = state.phase;
  for (auto& seat : state.group.seats) {
    bool const waits = phase == Phase::preparing ? seat.now == Seat::Now::invited : seat.now != Seat::Now::stopped;
    if (waits && state.roster.present.contains(seat.agent)) {
      turn.say(Level::warn, "no answer from " + seat.node.host);
      turn.act(HangUp{seat.agent});
      drop(state, seat.agent);
      count_loss(state, seat.node);
      keep_lease_outstanding(turn, seat);
      seat.now = Seat::Now::lost;
      --state.group.awaited;
    }
  }
  return phase == Phase::preparing ? Next{next::FormingAgain{}} : Next{next::Stopped{}};
}

Next begin_stopped(Turn& turn) {
  State& state = turn.state;
  if (!state.proposer.taking_over()) {
    turn.act(CloseStore{state.number});
  }
  for (auto& seat : state.group.seats) {
    if (seat.leaving != 0 && state.roster.present.contains(seat.agent)) {
      drain(turn, seat.agent, Finished{128 + seat.leaving, ""});
    } else if (!seat.unkillable.empty()) {
      state.roster.unkillable_on = seat.node.host + ": " + seat.unkillable.front();
      state.roster.unfit.emplace(node_key(seat.node), state.roster.unkillable_on);
      mark_dead(state, seat.node);
      drain(turn, seat.agent, Refused{kExitUnkillable, "excluded: " + seat.unkillable.front()});
    }
  }
  Ruling ruling = rule(state, turn.policy, turn.now);
  if (!ruling.line.empty() && ruling.line != state.group.stop.why) {
    turn.say(ruling.worker_failed() ? Level::error : Level::warn,
             "cause: " + ruling.line);  // worth a line only when it is not what the stop began with
  }
  if (ruling.worker_failed()) {
    judge_nodes(turn, failures_of(state).front(), ruling.next == Ruling::Next::restart);
  }
  for (auto const& [rank, why] : ruling.unfit) {
    exclude(turn, state.group.seats[rank].agent, why);
  }
  if (ruling.next == Ruling::Next::conclude) {
    Verdict& said = ruling.verdict;  // judging may have changed what else there is to tell
    return next::Finished{make_verdict(state, turn.policy, said.end, said.exit_code, std::move(said.summary))};
  }
  if (ruling.next == Ruling::Next::restart) {
    consume_restart(state.restarts, turn.now, turn.policy);
    turn.say(Level::info, restart_text(state.restarts, turn.now, turn.policy));
  }
  return next::Forming{};
}

}  // namespace cxxrun::rendezvous
