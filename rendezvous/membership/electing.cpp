#include "rendezvous/membership/electing.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/budget.hpp"
#include "rendezvous/membership/succession.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Somebody has not promised who is not proven dead: maybe only late to notice the loss.
bool may_come(Mandate const& mandate) {
  for (std::uint32_t rank = 0; rank < mandate.decided.size; ++rank) {
    if (!mandate.promised.contains(rank) && !mandate.buried.contains(Held{mandate.decided.number, rank})) {
      return true;
    }
  }
  return false;
}

/// The pair rule: the only other member is proven dead, so the promise of ours is enough.
bool alone(Mandate const& mandate) {
  return mandate.two_nodes && mandate.decided.size == 2 && mandate.promised.size() == 1 && !may_come(mandate);
}

}  // namespace

std::string name_of(std::uint64_t number) {
  return "generation " + std::to_string(number);
}

/// Waiting for members of the last generation; nothing of ours has begun.
bool candidate(State const& state) {
  return state.phase == Phase::electing || (state.phase == Phase::proposing && state.mandate.adopted);
}

/// Elected, and the generation that follows is not formed yet: a member that calls keeps its seat.
bool gathering(State const& state) {
  return state.mandate.taking_over() && (state.phase == Phase::stopping || state.phase == Phase::forming);
}

/// Somebody knows a later decision than ours: everybody here hears of it, and we have nothing to decide.
Next yield_to(Turn& turn, Decree const& later) {
  for (auto const& [agent, elector] : turn.state.electors) {
    if (elector.decided.number < later.number) {
      turn.act(Tell{agent, Decided{later, {}}});
    }
  }
  for (auto const& [agent, node] : turn.state.present) {
    turn.act(Tell{agent, Decided{later, {}}});
  }
  return next::Deposed{name_of(later.number) + " is decided already"};
}

Next ask(Turn& turn, AgentId agent, Elector const& elector) {
  Mandate& mandate = turn.state.mandate;
  if (elector.decided.number > mandate.decided.number) {
    return yield_to(turn, elector.decided);
  }
  mandate.seen = std::max({mandate.seen, elector.seen, elector.prepared});
  if (elector.decided.number < mandate.decided.number) {
    turn.act(Tell{agent, Decided{mandate.decided, {}}});
  } else if (elector.rank && *elector.rank < mandate.decided.size &&
             mandate.voters.emplace(agent, *elector.rank).second) {
    turn.act(Tell{agent, VoteRequest{mandate.decided.number, mandate.ballot}});
  }
  return stay;
}

Next stand(Turn& turn, Stand const& event) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  bool const first = state.phase == Phase::standby;
  state.candidacy = event.candidacy;
  if (!first && !candidate(state)) {
    turn.say(Level::debug, "ignored: a candidacy while coordinating");
    return stay;
  }
  if (!first && (event.decided.number < mandate.decided.number ||
                 (event.decided.number == mandate.decided.number && event.ballot <= mandate.ballot))) {
    turn.say(Level::debug, "ignored: a candidacy that is no news");
    return stay;
  }
  mandate.decided = event.decided;
  mandate.seen = std::max({mandate.seen, event.seen, event.decided.number});
  mandate.two_nodes = event.pair;
  mandate.half_after = event.half_after;
  mandate.successors = event.successors;
  state.number = std::max(state.number, event.decided.number);
  inherit_restarts(state, std::max(event.restarts, event.decided.restarts), turn.now, turn.policy);
  state.old_hosts = event.hosts;
  if (event.pair && event.peer_dead && event.decided.size == 2) {
    mandate.buried.insert(Held{event.decided.number, 1 - std::min(event.ballot.rank, 1U)});
  }
  mandate.tries += first ? 0 : 1;
  return next::Electing{event.ballot};
}

Next begin_electing(Turn& turn, Ballot ballot) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  state.answer_deadline.reset();
  mandate.ballot = ballot;
  mandate.proposal.reset();
  mandate.highest.reset();
  mandate.voters.clear();
  mandate.promised.clear();
  mandate.accepted.clear();
  mandate.adopted = mandate.halved = mandate.claiming = mandate.claimed = mandate.proposed = mandate.pair = false;
  turn.say(Level::info,
           "stands for election after " + name_of(mandate.decided.number) + ", round " + std::to_string(ballot.round));
  auto const electors = state.electors;
  for (auto const& [agent, elector] : electors) {
    if (Next next = ask(turn, agent, elector); !std::holds_alternative<next::Stay>(next)) {
      return next;
    }
  }
  return stay;
}

Next withdraw(Turn& turn, Withdraw const& event) {
  State const& state = turn.state;
  if (candidate(state)) {
    return next::Standby{event.why};
  }
  bool const stands = state.mandate.taking_over() && state.phase != Phase::finished;
  return stands ? Next{next::Deposed{event.why}} : Next{stay};
}

void begin_standby(Turn& turn, std::string const& why) {
  State& state = turn.state;
  state.answer_deadline.reset();
  state.mandate.ballot = {};
  state.mandate.voters.clear();
  state.mandate.promised.clear();
  state.mandate.proposal.reset();
  state.mandate.adopted = false;
  for (auto const& [agent, elector] : std::exchange(state.electors, {})) {
    turn.act(HangUp{agent});  // who has promised us looks for another one
  }
  for (auto const& [agent, node] : std::exchange(state.present, {})) {
    turn.act(HangUp{agent});  // came while another's decree was being decided
  }
  state.index_owner.clear();
  turn.say(Level::debug, "no candidate any more: " + why);
}

Next hear_vote(Turn& turn, AgentId agent, Vote const& message) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  auto const voter = mandate.voters.find(agent);
  if (voter == mandate.voters.end() || message.after != mandate.decided.number) {
    turn.say(Level::debug, "ignored: a vote after " + name_of(message.after));
    return stay;
  }
  if (message.promised > mandate.ballot) {
    auto const why = "node " + std::to_string(voter->second) + " has promised round " +
                     std::to_string(message.promised.round) + " to node " + std::to_string(message.promised.rank);
    if (candidate(state)) {
      mandate.promised.erase(voter->second);
      turn.say(Level::debug, why);
    } else if (state.phase != Phase::finished) {
      return next::Deposed{why};
    }
    return stay;
  }
  if (message.ballot != mandate.ballot || message.promised != mandate.ballot) {
    return stay;
  }
  TimePoint const word = turn.now - std::max(message.silent_for, Millis{0});
  mandate.last_word = std::max(mandate.last_word.value_or(word), word);
  if (state.phase == Phase::electing) {
    mandate.promised.insert(voter->second);
    if (message.accepted && (!mandate.highest || message.accepted->ballot > mandate.highest->ballot)) {
      mandate.highest = message.accepted;
    }
    return count_promises(turn);
  }
  if (gathering(state)) {
    if (!message.accepted) {  // more than half by now, and none of them has accepted anything: no fence is needed
      mandate.promised.insert(voter->second);
      mandate.halved = mandate.halved && majority(mandate.decided, mandate.promised) == Majority::half;
    }
    return take_in(turn, agent);
  }
  return stay;
}

/// Enough may have promised.
Next count_promises(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (state.phase != Phase::electing || mandate.promised.empty()) {
    return stay;
  }
  Majority const got = majority(mandate.decided, mandate.promised);
  if (got == Majority::no && !alone(mandate)) {
    return stay;
  }
  if (got == Majority::half && may_come(mandate)) {  // more than half need no fence
    state.answer_deadline = state.answer_deadline.value_or(turn.now + mandate.half_after);
    if (turn.now < *state.answer_deadline) {
      return stay;
    }
  }
  mandate.pair = got != Majority::yes && alone(mandate);
  mandate.halved = got == Majority::half && !mandate.pair;
  turn.say(Level::info,
           "elected by " + std::to_string(mandate.promised.size()) + " of " + std::to_string(mandate.decided.size));
  if (mandate.highest) {
    mandate.proposal = mandate.highest->decree;
    mandate.adopted = true;
    return next::Proposing{};
  }
  return take_over(turn);
}

Next electing_tick(Turn& turn) {
  return is_due(turn.state.answer_deadline, turn.now) ? count_promises(turn) : Next{stay};
}

Next follow_adopted(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  std::uint32_t const round = mandate.ballot.round;
  note_decided(mandate);
  inherit_restarts(state, mandate.decided.restarts, turn.now, turn.policy);
  state.number = std::max(state.number, mandate.decided.number);
  mandate.seen = std::max(mandate.seen, mandate.decided.number);
  turn.say(Level::info,
           name_of(mandate.decided.number) + " was accepted before its coordinator was lost: decided, not started");
  std::optional<std::uint32_t> own;
  for (auto& [agent, elector] : state.electors) {
    turn.act(Tell{agent, Decided{mandate.decided, {}}});
    bool const member = elector.prepared == mandate.decided.number;
    elector.rank = member ? elector.prepared_rank : std::nullopt;
    elector.decided = mandate.decided;
    elector.workers = false;
    if (elector.node.hosts) {
      own = elector.rank;
    }
  }
  if (!own) {
    return next::Deposed{name_of(mandate.decided.number) + " is decided, and this node is no member of it"};
  }
  return next::Electing{Ballot{round + 1, *own}};
}

std::optional<AgentId> bury(Turn& turn, Gone const& gone) {
  State& state = turn.state;
  Held const held{gone.number, gone.group_rank};
  state.mandate.buried.insert(held);
  prove_stopped(state.mandate, held.first, held.second);
  bool const workers_run = state.phase == Phase::running || state.phase == Phase::stopping;
  if (!workers_run || held.first != state.number || held.second >= state.seats.size()) {
    return std::nullopt;
  }
  AgentId const agent = state.seats[held.second].agent;
  return state.present.contains(agent) ? std::optional(agent) : std::nullopt;
}

}  // namespace cxxrun::rendezvous
