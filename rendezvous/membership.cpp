#include "rendezvous/membership.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/cause.hpp"
#include "rendezvous/forming.hpp"
#include "rendezvous/leaving.hpp"
#include "rendezvous/seating.hpp"
#include "rendezvous/stopping.hpp"

namespace cxxrun::rendezvous {
namespace {

// ---- events ---------------------------------------------------------------------------------------------------

std::optional<Refused> objection(State const& state, NodeInfo const& node, Policy const& policy) {
  if (state.phase == Phase::finished) {
    return Refused{state.verdict->exit_code, "the job is over: " + state.verdict->summary};
  }
  if (node.node_index && state.index_owner.contains(*node.node_index)) {
    return Refused{kExitUsage, "node rank " + std::to_string(*node.node_index) + " is taken by " +
                                   state.present.at(state.index_owner.at(*node.node_index)).host +
                                   ": give each agent its own --node-rank"};
  }
  auto const lost = state.losses.find(node_key(node));
  if (lost != state.losses.end() && lost->second >= policy.flap_limit) {
    return Refused{kExitTooFewNodes, "node " + node.host + " was lost " + std::to_string(lost->second) + " times"};
  }
  if (auto const unfit = state.unfit.find(node_key(node)); unfit != state.unfit.end()) {
    return Refused{kExitTooFewNodes, "this node was set aside: " + unfit->second};
  }
  return std::nullopt;
}

/// A node may enter a running job when there is a seat, nobody is done yet and the last entry is long enough ago.
void consider_scale_out(Turn& turn) {
  State& state = turn.state;
  bool const ending = std::any_of(state.seats.begin(), state.seats.end(),
                                  [](Seat const& seat) { return seat.now == Seat::Now::succeeded; });
  if (state.seats.size() >= turn.policy.max_nodes || state.present.size() <= state.seats.size() || ending) {
    state.scale_out_at.reset();
    return;
  }
  if (!turn.policy.scale_out_now) {
    return;
  }
  if (state.last_scale_out && turn.now < *state.last_scale_out + turn.policy.join_spacing) {
    state.scale_out_at = *state.last_scale_out + turn.policy.join_spacing;
    return;
  }
  state.last_scale_out = turn.now;
  auto const waiting = state.present.size() - state.seats.size();
  begin_stopping(turn, {StopKind::resize, 0, std::to_string(waiting) + " more node(s) came: forming again"});
}

/// Until when a node that came late waits, for the log; "" when all seats are taken.
std::string waits_for(Turn const& turn) {
  if (turn.state.seats.size() >= turn.policy.max_nodes) {
    return "";
  }
  return turn.policy.scale_out_now ? "" : " until the next restart";
}

void on(Turn& turn, Opened const&) {
  if (turn.state.phase == Phase::forming && !turn.state.join_deadline) {
    begin_forming(turn);
  }
}

void on(Turn& turn, Joined const& event) {
  State& state = turn.state;
  if (event.node.node_index) {
    state.came.insert(*event.node.node_index);
  }
  if (auto refused = objection(state, event.node, turn.policy)) {
    turn.say("refused " + event.node.host + ": " + refused->why);
    turn.act(Tell{event.agent, *std::move(refused)});
    turn.act(HangUp{event.agent});
    if (state.phase == Phase::finished) {
      close_if_alone(turn);
    }
    return;
  }
  state.present.emplace(event.agent, event.node);
  state.gone.erase(node_key(event.node));
  if (event.node.node_index) {
    state.dead.erase(*event.node.node_index);
    state.index_owner[*event.node.node_index] = event.agent;
  }
  if (state.phase == Phase::forming) {
    consider_forming(turn);
  } else if (state.phase == Phase::running) {
    consider_scale_out(turn);
    if (state.phase == Phase::running) {
      turn.say(event.node.host + " waits as a spare" + waits_for(turn));
    }
  }
}

void on(Turn& turn, Lost const& event) {
  State& state = turn.state;
  auto const it = state.present.find(event.agent);
  if (it == state.present.end()) {
    if (state.aside.erase(event.agent) > 0 && state.phase == Phase::finished) {
      close_if_alone(turn);
    }
    return;
  }
  NodeInfo const node = it->second;
  Seat* const seat = state.phase == Phase::forming ? nullptr : find_seat(state, event.agent);
  bool const awaited_stop = state.phase == Phase::stopping && seat != nullptr && seat->now != Seat::Now::stopped;
  drop(state, event.agent);
  if (state.phase == Phase::finished) {
    close_if_alone(turn);
  } else if (seat == nullptr) {
    turn.say("lost " + node.host + " (" + event.how + ") while it waited");
    if (state.phase == Phase::forming) {
      mark_dead(state, node);
      consider_forming(turn);
    }
  } else if (state.phase != Phase::stopping || awaited_stop) {
    lose_seat(turn, *seat, event.how);
  }
  end_if_abandoned(turn);
}

void on(Turn& turn, StoreOpened const& event) {
  if (turn.state.phase == Phase::opening && event.number == turn.state.number) {
    begin_preparing(turn, event);
  }
}

void on(Turn& turn, StoreFailed const& event) {
  if (turn.state.phase == Phase::opening && event.number == turn.state.number) {
    conclude(turn, make_verdict(turn.state, turn.policy, End::system_failure, kExitSystem, event.why));
  }
}

void hear(Turn& turn, Seat& seat, Ack const&) {
  if (turn.state.phase != Phase::preparing || seat.now != Seat::Now::invited) {
    return;
  }
  seat.now = Seat::Now::ready;
  if (--turn.state.awaited == 0) {
    begin_running(turn);
  }
}

void hear(Turn& turn, Seat& seat, WorkerFailed const& message) {
  State& state = turn.state;
  if (state.phase != Phase::running && state.phase != Phase::stopping) {
    return;
  }
  auto const group_rank = state.seat_of.at(seat.agent);
  state.reports.push_back(Report{group_rank, message.exit});
  if (state.phase == Phase::running) {
    begin_stopping(turn, {StopKind::failure, 0,
                          "rank " + std::to_string(message.exit.rank) + " on " + seat.node.host + ": " +
                              message.exit.status.describe()});
  }
}

void hear(Turn& turn, Seat& seat, Succeeded const&) {
  State& state = turn.state;
  if (state.phase != Phase::running || seat.now != Seat::Now::running) {
    return;
  }
  seat.now = Seat::Now::succeeded;
  if (--state.awaited == 0) {
    turn.act(CloseStore{state.number});
    conclude(turn, make_verdict(state, turn.policy, End::success, 0, "all workers finished"));
  }
}

void hear(Turn& turn, Seat& seat, Stopped const& message) {
  if (turn.state.phase != Phase::stopping || seat.now == Seat::Now::stopped) {
    return;
  }
  seat.now = Seat::Now::stopped;
  seat.exits = message.exits;
  seat.unkillable = message.unkillable;
  answered(turn);
}

/// An answer to an election that nobody holds.
void hear(Turn& turn, Seat& /*seat*/, Vote const& /*message*/) {
  turn.say("ignored: a vote");
}
void hear(Turn& turn, Seat& /*seat*/, Accepted const& /*message*/) {
  turn.say("ignored: an acceptance");
}

void on(Turn& turn, Said const& event) {
  if (auto const* leaving = std::get_if<Leaving>(&event.message)) {
    leave(turn, event.agent, leaving->signal);
    return;
  }
  if (auto const* unfit = std::get_if<Unfit>(&event.message)) {
    set_aside(turn, event.agent, unfit->why);
    return;
  }
  Seat* const seat = turn.state.phase == Phase::forming ? nullptr : find_seat(turn.state, event.agent);
  std::visit(
      [&](auto const& message) {
        using Message = std::decay_t<decltype(message)>;
        if constexpr (std::is_same_v<Message, Vote> || std::is_same_v<Message, Accepted>) {
          if (seat != nullptr) {
            hear(turn, *seat, message);
          }
        } else if constexpr (!std::is_same_v<Message, Leaving> && !std::is_same_v<Message, Unfit>) {
          if (seat == nullptr || message.number != turn.state.number) {
            turn.say("ignored: message of generation " + std::to_string(message.number) + " during generation " +
                     std::to_string(turn.state.number));
          } else {
            hear(turn, *seat, message);
          }
        }
      },
      event.message);
}

template <class Other>
void on(Turn& /*turn*/, Other const& /*event*/) {}

/// The coordinator goes, so the run ends for everybody: gracefully while workers run.
void on(Turn& turn, Quit const& event) {
  State& state = turn.state;
  auto const why = "the coordinator was told to end by " + signal_name(event.signal);
  if (state.phase == Phase::running) {
    begin_stopping(turn, {StopKind::user, event.signal, why});
  } else if (state.phase == Phase::stopping) {
    state.stop = {StopKind::user, event.signal, why};
  } else if (state.phase != Phase::finished) {
    state.stop = {StopKind::user, event.signal, why};
    conclude(turn, make_verdict(state, turn.policy, End::stopped, 128 + event.signal, why));
  }
}

void on(Turn& turn, Tick const&) {
  State& state = turn.state;
  auto const due = [&](std::optional<TimePoint> const& at) { return at && *at <= turn.now; };
  switch (state.phase) {
    case Phase::forming: forming_tick(turn); break;
    case Phase::standby:
    case Phase::electing:
    case Phase::proposing:
    case Phase::gated:
    case Phase::deposed:
    case Phase::opening: break;
    case Phase::preparing:
    case Phase::stopping:
      if (due(state.answer_deadline)) {
        drop_silent(turn);
        end_if_abandoned(turn);
      }
      break;
    case Phase::running:
      if (due(state.scale_out_at)) {
        consider_scale_out(turn);
      }
      break;
    case Phase::finished:
      if (due(state.answer_deadline)) {
        turn.act(Close{});
      }
      break;
  }
}

std::optional<TimePoint> next_deadline(State const& state) {
  std::optional<TimePoint> least;
  auto const consider = [&](std::optional<TimePoint> const& at) {
    if (at && (!least || *at < *least)) {
      least = at;
    }
  };
  if (state.phase == Phase::forming) {
    consider(state.join_deadline);
    consider(state.window_deadline);
  } else if (state.phase == Phase::running) {
    consider(state.scale_out_at);
  } else if (state.phase != Phase::opening) {
    consider(state.answer_deadline);
  }
  return least;
}

}  // namespace

Step step(State state, Event const& event, TimePoint now, Policy const& policy) {
  auto const armed_before = next_deadline(state);
  Step result;
  result.next = std::move(state);
  Turn turn{result.next, result.actions, result.reason, now, policy};
  std::visit([&](auto const& concrete) { on(turn, concrete); }, event);
  auto const armed = next_deadline(result.next);
  if (armed && armed != armed_before) {
    result.actions.emplace_back(ArmTimer{*armed});
  }
  return result;
}

}  // namespace cxxrun::rendezvous
