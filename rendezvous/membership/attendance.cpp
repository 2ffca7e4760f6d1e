#include "rendezvous/membership/attendance.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/ending.hpp"
#include "rendezvous/membership/excluding.hpp"
#include "rendezvous/membership/forming.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/starting.hpp"
#include "rendezvous/values/verdict.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

StopReason told_to_end(NodeInfo const& node, Leaving const& how) {
  constexpr std::size_t kMost = 100;
  std::string const from = how.from.empty() ? "" : " " + printable(how.from, kMost);
  return {StopKind::user, how.signal, node.host + " was told to end by " + signal_name(how.signal) + from};
}

/// An excluded node was told to end. That changes nothing, but if it is the coordinator's node the job ends with it.
Next leave_excluded(Turn& turn, AgentId agent, Leaving const& how) {
  State& state = turn.state;
  NodeInfo const node = state.roster.excluded.at(agent);
  turn.act(Tell{agent, Finished{128 + how.signal, ""}});
  turn.act(HangUp{agent});
  state.roster.excluded.erase(agent);
  if (node.coordinates) {
    state.group.stop = told_to_end(node, how);
    return next::Finished{told_to_end(state, turn.policy)};
  }
  return stay;
}

/// A member is gone, and dropped already: what follows in each phase.
Next lose_seat(Turn& turn, Seat& seat, Lost const& event) {
  State& state = turn.state;
  bool const was_done = seat.now == Seat::Now::succeeded;
  keep_lease_outstanding(turn, seat);
  if (!was_done) {
    seat.now = Seat::Now::lost;
    if (seat.leaving == 0) {
      count_loss(state, seat.node, event.ended == Ended::in_order && turn.policy.oom_kills_step);
    }
  }
  switch (state.phase) {
    case Phase::opening:
    case Phase::preparing:
    case Phase::lease_wait: return next::FormingAgain{};
    case Phase::running:
      return was_done ? Next{stay}
                      : Next{next::Stopping{
                            {StopKind::failure, 0, "lost " + seat.node.host + " (" + event.how + ")", Level::warn}}};
    case Phase::stopping: return answered(turn);
    case Phase::proposing: return count_acceptances(turn);  // what is proposed must be decided first
    case Phase::standby:
    case Phase::electing:
    case Phase::deposed:
    case Phase::forming:
    case Phase::finished: break;
  }
  return stay;
}

/// Whether the agent may live, although its connection has ended: then it may join again at once. A silent agent may
/// live only if its connection may have been relayed.
bool may_live(State const& state, NodeInfo const& node, Seat const* seat, Ended ended) {
  if (ended == Ended::silent && !node.relayed) {
    return false;
  }
  if (seat == nullptr) {
    return true;
  }
  auto const rank = static_cast<std::uint32_t>(seat - state.group.seats.data());
  return seat->leaving == 0 && !state.election.dead.contains(Held{state.number, rank});
}

/// Why this coordinator must not call the node lost: it may itself be cut off, and the others may go on without it. "":
/// it may.
std::string unfit_to_judge(Turn& turn, NodeInfo const& node) {
  State const& state = turn.state;
  bool const ending = state.phase == Phase::stopping && state.group.stop.kind == StopKind::user;
  if (!rivalled(state, turn.policy) || ending) {
    return "";
  }
  if (node.coordinates) {
    return "the connection to its own agent has ended";
  }
  bool const out = state.phase == Phase::running && left(turn, Count::exactly) <= Millis{0};
  return out ? "too few members of " + name_of(state.proposer.decided.number) + " are heard" : "";
}

/// A node is here that could take a seat: what follows in each phase.
Next take_in(Turn& turn) {
  switch (turn.state.phase) {
    case Phase::forming: return consider_forming(turn);
    case Phase::running: return consider_scale_out(turn);
    case Phase::lease_wait: return take_in_while_waiting(turn);
    default: return stay;
  }
}

}  // namespace

std::optional<Refused> objection(State const& state, NodeInfo const& node, Policy const& policy) {
  if (state.phase == Phase::finished) {
    return Refused{state.verdict->exit_code, "the job is over: " + state.verdict->summary};
  }
  if (node.node_index && state.roster.index_owner.contains(*node.node_index)) {
    return Refused{kExitUsage, "node rank " + std::to_string(*node.node_index) + " is taken by " +
                                   state.roster.present.at(state.roster.index_owner.at(*node.node_index)).host +
                                   ": give each agent its own --node-rank"};
  }
  auto const lost = state.roster.losses.find(node_key(node));
  if (lost != state.roster.losses.end() && lost->second >= policy.flap_limit) {
    return Refused{kExitTooFewNodes, "node " + node.host + " was lost " + std::to_string(lost->second) + " times"};
  }
  if (auto const unfit = state.roster.unfit.find(node_key(node)); unfit != state.roster.unfit.end()) {
    return Refused{kExitTooFewNodes, "this node was excluded: " + unfit->second};
  }
  return std::nullopt;
}

Next consider_scale_out(Turn& turn) {
  State& state = turn.state;
  bool const ending = std::any_of(state.group.seats.begin(), state.group.seats.end(),
                                  [](Seat const& seat) { return seat.now == Seat::Now::succeeded; });
  if (state.group.seats.size() >= turn.policy.max_nodes || spares(state) == 0 || ending) {
    state.timers.scale_out.reset();
    return stay;
  }
  if (!turn.policy.scale_out_now) {
    return stay;
  }
  if (NodeInfo const* const node = whole_again(state)) {  // it was a member, so the spacing of joins does not hold
    return next::Stopping{{StopKind::resize, 0, node->host + " has all of its workers again: forming again"}};
  }
  auto& last = state.timers.last_scale_out;
  if (!last || turn.now >= *last + turn.policy.join_spacing) {
    last = turn.now;
  } else if (turn.now >= *last + turn.policy.join_together) {
    state.timers.scale_out = *last + turn.policy.join_spacing;
    return stay;
  }
  return next::Stopping{{StopKind::resize, 0, std::to_string(spares(state)) + " more node(s) came: forming again"}};
}

Next come_in(Turn& turn, AgentId agent, NodeInfo const& node) {
  State& state = turn.state;
  turn.tell(story::NodeJoined{node.host, node.slots});
  enter(state, agent, node);
  return take_in(turn);
}

Next handle(Turn& turn, AgentId agent, Complete const& /*message*/) {
  auto const it = turn.state.roster.left_out.find(agent);
  if (it == turn.state.roster.left_out.end() || std::exchange(it->second.whole, true)) {
    return stay;
  }
  return take_in(turn);
}

void say_spare(Turn& turn, NodeInfo const& node) {
  bool const seat = turn.state.group.seats.size() < turn.policy.max_nodes;
  turn.say(Level::info,
           node.host + " waits as a spare" + (seat && !turn.policy.scale_out_now ? " until the next restart" : ""),
           "spare");
}

Next lose(Turn& turn, Lost const& event) {
  State& state = turn.state;
  forget(state.silence, event.agent);
  auto const it = state.roster.present.find(event.agent);
  if (it == state.roster.present.end()) {
    state.election.followers.erase(event.agent);
    state.roster.draining.erase(event.agent);
    state.election.voters.erase(event.agent);
    state.leases.pulses.erase(event.agent);
    if (state.roster.excluded.erase(event.agent) > 0 && state.phase == Phase::finished) {
      close_if_alone(turn);
    }
    return count_acceptances(turn);
  }
  NodeInfo const node = it->second;
  Seat* const seat = state.phase == Phase::forming ? nullptr : find_seat(state, event.agent);
  bool const stopped = state.phase == Phase::stopping && seat != nullptr && seat->now == Seat::Now::stopped;
  bool const done = stopped || (seat != nullptr && seat->now == Seat::Now::succeeded);
  bool const calls = event.ended != Ended::goodbye && rivalled(state, turn.policy);  // it may call, if followers can
  if (done && calls) {
    state.group.unaware.insert(node_key(node));
    state.timers.answer = state.phase == Phase::finished ? sees_off_until(turn) : state.timers.answer;
  }
  drop(state, event.agent);
  if (state.phase == Phase::finished) {
    close_if_alone(turn);
    return stay;
  }
  if (auto why = unfit_to_judge(turn, node); !why.empty()) {
    return next::Deposed{std::move(why)};
  }
  turn.tell(story::NodeLost{node.host, event.how});
  if (may_live(state, node, seat, event.ended)) {
    state.roster.cut[node_key(node)] = node.host;
  }
  if (seat != nullptr) {
    return stopped ? Next{stay} : lose_seat(turn, *seat, event);
  }
  turn.say(Level::warn, "lost " + node.host + " (" + event.how + ") while it waited", "lost");
  if (state.phase != Phase::forming) {
    return count_acceptances(turn);
  }
  mark_dead(state, node);
  return consider_forming(turn);
}

Next leave(Turn& turn, AgentId agent, Leaving const& how) {
  State& state = turn.state;
  if (state.phase != Phase::finished && state.roster.excluded.contains(agent)) {
    return leave_excluded(turn, agent, how);
  }
  auto const it = state.roster.present.find(agent);
  if (it == state.roster.present.end() || state.phase == Phase::finished) {
    return stay;
  }
  NodeInfo const node = it->second;
  turn.tell(story::NodeLeft{node.host, how.signal});
  Seat* const seat = state.phase == Phase::forming ? nullptr : find_seat(state, agent);
  std::size_t staying = state.roster.present.size() - 1;
  for (auto const& other : state.group.seats) {
    bool const goes = other.leaving != 0 || !other.drained.empty();
    staying -= (goes && other.agent != agent && state.roster.present.contains(other.agent)) ? 1 : 0;
  }
  bool const job_ends = node.coordinates || (state.ever_ran && staying < turn.policy.min_nodes);
  StopReason const told = told_to_end(node, how);
  int const signal = how.signal;
  if (workers_may_run(state.phase) && seat != nullptr) {
    seat->leaving = signal;
    if (state.phase == Phase::running) {
      return next::Stopping{{job_ends ? StopKind::user : StopKind::resize, signal, told.why}};
    }
    if (job_ends) {
      state.group.stop = told;
    }
    return stay;
  }
  drain(turn, agent, Finished{128 + signal, ""});
  if (job_ends || state.roster.present.empty()) {
    state.group.stop = told;
  }
  if (job_ends) {
    return next::Finished{told_to_end(state, turn.policy)};
  }
  if (seat != nullptr) {
    seat->leaving = signal;
    return lose_seat(turn, *seat, {agent, "left"});
  }
  return state.phase == Phase::forming ? consider_forming(turn) : Next{stay};
}

Next exclude_unfit(Turn& turn, AgentId agent, std::string const& why) {
  State& state = turn.state;
  auto const it = state.roster.present.find(agent);
  if (it == state.roster.present.end() || state.phase == Phase::finished) {
    return stay;
  }
  NodeInfo const node = it->second;
  bool const seated = state.phase != Phase::forming && find_seat(state, agent) != nullptr;
  if (seated && workers_may_run(state.phase)) {
    turn.say(Level::debug, "ignored: a failed health check of " + node.host + ", whose workers run", "ignored");
    return stay;
  }
  exclude(turn, agent, why);
  note_fault(state.roster.fitness, {node.host, why, 0, node_key(node)});
  if (seated) {
    return state.phase == Phase::proposing ? count_acceptances(turn) : Next{next::FormingAgain{}};
  }
  return state.phase == Phase::forming ? consider_forming(turn) : Next{stay};
}

}  // namespace cxxrun::rendezvous
