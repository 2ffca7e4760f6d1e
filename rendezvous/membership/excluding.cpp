#include "rendezvous/membership/excluding.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/books.hpp"

namespace cxxrun::rendezvous {
namespace {

/// "node1 is back", as a spare, or "node1 may come back" when its agent has left meanwhile.
std::string call_back(State& state, std::string const& key) {
  std::string const host = state.roster.unfit.contains(key) ? state.roster.unfit.at(key) : key + ":";
  std::string const name = host.substr(0, host.find(':'));
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

}  // namespace

bool has_spare(State const& state) {
  auto const members = std::count_if(state.group.seats.begin(), state.group.seats.end(),
                                     [&](Seat const& seat) { return state.roster.present.contains(seat.agent); });
  return state.roster.present.size() > static_cast<std::size_t>(members);
}

Blame blame(Fitness& fitness, std::string const& key, std::uint32_t group_rank) {
  fitness.in_a_row = fitness.culprit == key ? fitness.in_a_row + 1 : 1;
  fitness.culprit = key;
  Blame result;
  auto const suspect = std::find_if(fitness.suspects.begin(), fitness.suspects.end(),
                                    [&](auto const& entry) { return entry.second == group_rank; });
  if (suspect != fitness.suspects.end()) {
    result.acquitted = suspect->first;
    fitness.failing.insert(group_rank);
    fitness.suspects.erase(suspect);
  }
  result.twice = fitness.in_a_row >= 2 && !fitness.failing.contains(group_rank);
  return result;
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
  std::string const key = node_key(seat.node);
  Blame const verdict = blame(state.roster.fitness, key, cause.group_rank);
  if (!verdict.acquitted.empty()) {
    auto const& line =
        state.roster.unfit.contains(verdict.acquitted) ? state.roster.unfit.at(verdict.acquitted) : verdict.acquitted;
    std::string const from = line.substr(0, line.find(':'));
    state.roster.fitness.lines.push_back("failure followed rank " + std::to_string(cause.exit.rank) + " from " + from +
                                         " to " + seat.node.host + ": " + call_back(state, verdict.acquitted));
    turn.say(Level::warn, state.roster.fitness.lines.back());
  }
  if (goes_on && verdict.twice && !seat.node.coordinates && has_spare(state) &&
      state.roster.present.contains(seat.agent)) {
    state.roster.fitness.suspects[key] = cause.group_rank;
    exclude(turn, seat.agent, "first to fail twice running, as rank " + std::to_string(cause.exit.rank));
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
