#include "rendezvous/membership/entering.hpp"

#include <algorithm>

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/forming.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::rendezvous {

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
  if (state.group.seats.size() >= turn.policy.max_nodes || state.roster.present.size() <= state.group.seats.size() ||
      ending) {
    state.timers.scale_out.reset();
    return stay;
  }
  if (!turn.policy.scale_out_now) {
    return stay;
  }
  if (state.timers.last_scale_out && turn.now < *state.timers.last_scale_out + turn.policy.join_spacing) {
    state.timers.scale_out = *state.timers.last_scale_out + turn.policy.join_spacing;
    return stay;
  }
  state.timers.last_scale_out = turn.now;
  auto const waiting = state.roster.present.size() - state.group.seats.size();
  return next::Stopping{{StopKind::resize, 0, std::to_string(waiting) + " more node(s) came: forming again"}};
}

Next come_in(Turn& turn, AgentId agent, NodeInfo const& node) {
  State& state = turn.state;
  enter(state, agent, node);
  switch (state.phase) {
    case Phase::forming: return consider_forming(turn);
    case Phase::running: return consider_scale_out(turn);
    default: return stay;
  }
}

void say_spare(Turn& turn, NodeInfo const& node) {
  bool const seat = turn.state.group.seats.size() < turn.policy.max_nodes;
  turn.say(Level::info,
           node.host + " waits as a spare" + (seat && !turn.policy.scale_out_now ? " until the next restart" : ""));
}

}  // namespace cxxrun::rendezvous
