#include "rendezvous/membership/leaving.hpp"

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/proposing.hpp"
#include "rendezvous/membership/seating.hpp"
#include "rendezvous/membership/setting_aside.hpp"
#include "rendezvous/membership/stopping.hpp"

namespace cxxrun::rendezvous {
namespace {

/// A node that was set aside is told to end: nobody misses it, but the coordinator's host takes the job with it.
void leave_aside(Turn& turn, AgentId agent, int signal) {
  State& state = turn.state;
  NodeInfo const node = state.aside.at(agent);
  turn.act(Tell{agent, Finished{128 + signal, ""}});
  turn.act(HangUp{agent});
  state.aside.erase(agent);
  if (node.hosts) {
    auto const why = node.host + " was told to end by " + signal_name(signal);
    state.stop = {StopKind::user, signal, why};
    conclude(turn, make_verdict(state, turn.policy, End::stopped, 128 + signal, why));
  }
}

}  // namespace

Seat* find_seat(State& state, AgentId agent) {
  auto const it = state.seat_of.find(agent);
  return it == state.seat_of.end() ? nullptr : &state.seats[it->second];
}

void part(Turn& turn, AgentId agent, ToAgent last_word) {
  State& state = turn.state;
  auto const it = state.present.find(agent);
  if (it == state.present.end()) {
    return;
  }
  mark_dead(state, it->second);  // it does not come back
  auto vote = state.mandate.voters.extract(agent);
  drop(state, agent);
  state.parting.emplace(agent, std::move(last_word));
  if (!vote.empty() && rivalled(state, turn.policy)) {
    state.mandate.voters.insert(std::move(vote));
  } else {
    dismiss(turn);
  }
}

void dismiss(Turn& turn) {
  State& state = turn.state;
  std::erase_if(state.parting, [&](auto const& entry) {
    auto const& [agent, last_word] = entry;
    if (state.mandate.voters.contains(agent)) {
      return false;
    }
    turn.act(Tell{agent, last_word});
    turn.act(HangUp{agent});
    return true;
  });
}

void lose(Turn& turn, Lost const& event) {
  State& state = turn.state;
  state.silence = forget(std::move(state.silence), event.agent);
  auto const it = state.present.find(event.agent);
  if (it == state.present.end()) {
    state.electors.erase(event.agent);
    state.parting.erase(event.agent);
    state.mandate.voters.erase(event.agent);
    state.mandate.pulses.erase(event.agent);
    count_acceptances(turn);
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
    turn.say(Level::warn, "lost " + node.host + " (" + event.how + ") while it waited");
    if (state.phase == Phase::forming) {
      mark_dead(state, node);
      consider_forming(turn);
    } else {
      count_acceptances(turn);
    }
  } else if (state.phase != Phase::stopping || awaited_stop) {
    lose_seat(turn, *seat, event.how);
  }
  end_if_abandoned(turn);
}

void lose_seat(Turn& turn, Seat& seat, std::string const& how) {
  State& state = turn.state;
  bool const was_done = seat.now == Seat::Now::succeeded;
  leave_unproven(turn, seat);
  if (!was_done) {
    seat.now = Seat::Now::lost;
    if (seat.leaving == 0) {
      count_loss(state, seat.node);
    }
  }
  switch (state.phase) {
    case Phase::opening:
    case Phase::preparing:
    case Phase::gated: form_again(turn); break;
    case Phase::running:
      if (!was_done) {
        begin_stopping(turn, {StopKind::failure, 0, "lost " + seat.node.host + " (" + how + ")", Level::warn});
      }
      break;
    case Phase::stopping: answered(turn); break;
    case Phase::proposing: count_acceptances(turn); break;  // what is proposed must be decided first
    case Phase::standby:
    case Phase::electing:
    case Phase::deposed:
    case Phase::forming:
    case Phase::finished: break;
  }
}

void leave(Turn& turn, AgentId agent, int signal) {
  State& state = turn.state;
  if (state.phase != Phase::finished && state.aside.contains(agent)) {
    leave_aside(turn, agent, signal);
    return;
  }
  auto const it = state.present.find(agent);
  if (it == state.present.end() || state.phase == Phase::finished) {
    return;
  }
  NodeInfo const node = it->second;
  Seat* const seat = state.phase == Phase::forming ? nullptr : find_seat(state, agent);
  std::size_t staying = state.present.size() - 1;
  for (auto const& other : state.seats) {
    staying -= (other.leaving != 0 && other.agent != agent && state.present.contains(other.agent)) ? 1 : 0;
  }
  bool const job_ends = node.hosts || (state.ever_ran && staying < turn.policy.min_nodes);
  auto const why = node.host + " was told to end by " + signal_name(signal);
  bool const workers_run = state.phase == Phase::running || state.phase == Phase::stopping;
  if (!workers_run || seat == nullptr) {
    part(turn, agent, Finished{128 + signal, ""});
    if (job_ends) {
      state.stop = {StopKind::user, signal, why};
      conclude(turn, make_verdict(state, turn.policy, End::stopped, 128 + signal, why));
    } else if (seat != nullptr) {
      seat->leaving = signal;
      lose_seat(turn, *seat, "left");
    } else if (state.phase == Phase::forming) {
      consider_forming(turn);
    }
    if (state.present.empty()) {
      state.stop = {StopKind::user, signal, why};
    }
    end_if_abandoned(turn);
    return;
  }
  seat->leaving = signal;
  if (state.phase == Phase::running) {
    begin_stopping(turn, {job_ends ? StopKind::user : StopKind::resize, signal, why});
  } else if (job_ends) {
    state.stop = {StopKind::user, signal, why};
  }
}

void set_aside(Turn& turn, AgentId agent, std::string const& why) {
  State& state = turn.state;
  auto const it = state.present.find(agent);
  if (it == state.present.end() || state.phase == Phase::finished) {
    return;
  }
  NodeInfo const node = it->second;
  bool const seated = state.phase != Phase::forming && find_seat(state, agent) != nullptr;
  if (seated && (state.phase == Phase::running || state.phase == Phase::stopping)) {
    turn.say(Level::debug, "ignored: a failed health check of " + node.host + ", whose workers run");
    return;
  }
  put_aside(turn, agent, why);
  if (seated && state.phase == Phase::proposing) {
    count_acceptances(turn);
  } else if (seated) {
    form_again(turn);
  } else if (state.phase == Phase::forming) {
    consider_forming(turn);
  }
  end_if_abandoned(turn);
}

}  // namespace cxxrun::rendezvous
