#include "rendezvous/membership/excluding.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "rendezvous/membership/roster.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Host of an excluded node.
std::string host_of(State const& state, std::string const& key) {
  auto const line = state.roster.unfit.find(key);
  return line == state.roster.unfit.end() ? key : line->second.substr(0, line->second.find(':'));
}

/// Returns "node1 is back" (as a spare), or "node1 may come back" if its agent has left.
std::string call_back(State& state, std::string const& key) {
  std::string const name = host_of(state, key);
  state.roster.unfit.erase(key);
  auto const it = std::find_if(state.roster.excluded.begin(), state.roster.excluded.end(),
                               [&](auto const& entry) { return node_key(entry.second) == key; });
  if (it == state.roster.excluded.end()) {
    return name + " may come back";
  }
  auto const [agent, node] = *it;
  state.roster.excluded.erase(it);
  state.roster.present.emplace(agent, node);
  if (node.node_index) {
    state.roster.dead.erase(*node.node_index);
    state.roster.index_owner[*node.node_index] = agent;
  }
  return name + " is back";
}

/// Without one node enough are left: a spare takes the seat, or the job goes on with fewer nodes.
bool can_spare_one(Turn const& turn) {
  return turn.state.roster.present.size() > turn.policy.min_nodes;
}

/// Otherwise no node is known bad: saves a look at all present nodes when one joins.
bool has_faults_enough(State const& state) {
  return state.roster.fitness.faults.size() >= kFaultsEnough;
}

bool is_known_bad(State const& state, NodeInfo const& node) {
  return !node.coordinates && faults_of(state.roster.fitness, node_key(node), node.host).size() >= kFaultsEnough;
}

/// It is here, on the host that a person has named.
bool is_meant(State const& state, Seat const& seat, std::string const& name) {
  return state.roster.present.contains(seat.agent) && same_host_name(seat.node.host, name);
}

}  // namespace

std::string objection_to_drain(State const& state, std::string const& name, Policy const& policy) {
  auto const& seats = state.group.seats;
  std::size_t leave = 0;
  for (auto const& seat : seats) {
    bool const meant = is_meant(state, seat, name);
    leave += meant ? 1 : 0;
    if (meant && seat.node.coordinates) {
      return seat.node.host + " coordinates the job, and cannot hand that over: drain another node, or stop the job";
    }
  }
  if (leave == 0) {
    auto hosts = list_of(seats, [](auto const& seat) { return seat.node.host; });
    return "no worker of this job runs on " + printable(name) + ", but on " + join_first(8, std::move(hosts));
  }
  std::size_t const left = state.roster.present.size() - leave;
  return left >= policy.min_nodes
             ? ""
             : counted(left, "node") + " would be left without " + printable(name) +
                   ", spares included; --nnodes wants at least " + std::to_string(policy.min_nodes);
}

Next stop_to_drain(Turn& turn, std::string const& name, std::string const& why) {
  State& state = turn.state;
  std::string host;
  for (auto& seat : state.group.seats) {
    if (is_meant(state, seat, name)) {
      host = seat.node.host;
      seat.drained = why;
      state.roster.unfit.emplace(node_key(seat.node), host + ": " + why);  // also if it is lost before it has stopped
    }
  }
  return next::Stopping{{StopKind::resize, 0, host + " is " + why}};
}

bool has_spare(State const& state) {
  return state.roster.present.size() > seats_here(state);
}

void exclude(Turn& turn, AgentId agent, std::string const& why) {
  State& state = turn.state;
  NodeInfo const node = state.roster.present.at(agent);
  turn.tell(story::NodeExcluded{node.host, why});
  turn.say(Level::warn, "excluded " + node.host + ": " + why);
  state.roster.unfit.emplace(node_key(node), node.host + ": " + why);
  mark_dead(state, node);
  state.roster.excluded.emplace(agent, node);
  auto vote = state.election.voters.extract(agent);  // it stays connected: its voice in the next decree counts
  drop(state, agent);
  state.election.voters.insert(std::move(vote));
}

void judge_nodes(Turn& turn, Failure const& cause, bool goes_on) {
  State& state = turn.state;
  Seat const& seat = state.group.seats.at(cause.group_rank);
  FirstFailure const first{node_key(seat.node), seat.node.host, cause.group_rank, cause.exit};
  Fitness& fitness = state.roster.fitness;
  Attribution const fault = attribute_failure(fitness, first);
  auto const call = [&](std::string const& key, std::string const& what, std::string const& joint) {
    auto const from = host_of(state, key);
    fitness.lines.push_back(what + from + joint + seat.node.host + ": " + call_back(state, key));
    turn.say(Level::warn, fitness.lines.back());
  };
  for (auto const& key : fault.by_rank) {
    call(key, "failure followed rank " + std::to_string(cause.exit.rank) + " from ", " to ");
  }
  for (auto const& key : fault.by_look) {
    call(key, "the same failure on ", " and on ");
  }
  bool const here = state.roster.present.contains(seat.agent) && !seat.node.coordinates;
  if (goes_on && fault.repeated && here && can_spare_one(turn)) {
    add_suspect(fitness, first);
    exclude(turn, seat.agent,
            fault.in_a_row ? "first to fail twice running, as rank " + std::to_string(cause.exit.rank)
                           : fault_text(faults_of(fitness, first.key, first.host)));
  }
}

bool has_known_bad(State const& state) {
  return has_faults_enough(state) && std::any_of(state.roster.present.begin(), state.roster.present.end(),
                                                 [&](auto const& entry) { return is_known_bad(state, entry.second); });
}

void set_aside_known_bad(Turn& turn) {
  State& state = turn.state;
  if (!has_faults_enough(state)) {
    return;
  }
  for (auto it = state.roster.present.begin(); it != state.roster.present.end() && can_spare_one(turn);) {
    auto const here = it++;  // exclude() may erase it
    if (is_known_bad(state, here->second)) {
      auto const [agent, node] = *here;
      auto const faults = faults_of(state.roster.fitness, node_key(node), node.host);
      state.roster.fitness.suspects[node_key(node)] = {node.host, std::nullopt, faults.back().look};
      exclude(turn, agent, fault_text(faults));
    }
  }
}

void call_back_if_too_few(Turn& turn) {
  State& state = turn.state;
  auto& suspects = state.roster.fitness.suspects;
  for (auto it = suspects.begin(); it != suspects.end() && state.roster.present.size() < turn.policy.min_nodes;) {
    bool const here = std::any_of(state.roster.excluded.begin(), state.roster.excluded.end(),
                                  [&](auto const& entry) { return node_key(entry.second) == it->first; });
    if (here) {
      turn.say(Level::warn, "too few nodes: " + call_back(state, it->first));
    }
    it = here ? suspects.erase(it) : std::next(it);
  }
}

std::map<std::uint32_t, std::string> start_faults(State const& state, Policy const& policy) {
  std::map<std::uint32_t, std::string> faults;
  std::set<std::string> roles_that_start;
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    Seat const& seat = state.group.seats[rank];
    auto const failed = std::find_if(seat.exits.begin(), seat.exits.end(), [](WorkerExit const& exit) {
      return exit.status.kind == ExitStatus::Kind::not_started;
    });
    if (failed != seat.exits.end()) {
      faults.emplace(rank, "the program, which runs on other nodes, " + failed->status.describe());
    } else if (!seat.exits.empty()) {
      roles_that_start.insert(seat.node.role);
    }
  }
  bool const nodes_fault = std::all_of(faults.begin(), faults.end(), [&](auto const& fault) {
    Seat const& seat = state.group.seats[fault.first];
    return roles_that_start.contains(seat.node.role) && !seat.node.coordinates &&
           state.roster.present.contains(seat.agent);
  });
  bool const enough = state.roster.present.size() >= faults.size() + policy.min_nodes;
  return nodes_fault && enough ? faults : std::map<std::uint32_t, std::string>{};
}

}  // namespace cxxrun::rendezvous
