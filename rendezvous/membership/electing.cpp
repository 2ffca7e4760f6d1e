#include "rendezvous/membership/electing.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/budget.hpp"
#include "rendezvous/membership/entering.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/leaving.hpp"
#include "rendezvous/membership/proposing.hpp"
#include "rendezvous/membership/redirecting.hpp"
#include "rendezvous/membership/seating.hpp"
#include "rendezvous/membership/stopping.hpp"
#include "rendezvous/membership/succession.hpp"

namespace cxxrun::rendezvous {
namespace {

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
void yield_to(Turn& turn, Decree const& later) {
  for (auto const& [agent, elector] : turn.state.electors) {
    if (elector.decided.number < later.number) {
      turn.act(Tell{agent, Decided{later, {}}});
    }
  }
  for (auto const& [agent, node] : turn.state.present) {
    turn.act(Tell{agent, Decided{later, {}}});
  }
  stand_down(turn, name_of(later.number) + " is decided already");
}

/// False: we have stood down over what it knows.
bool ask(Turn& turn, AgentId agent, Elector const& elector) {
  Mandate& mandate = turn.state.mandate;
  if (elector.decided.number > mandate.decided.number) {
    yield_to(turn, elector.decided);
    return false;
  }
  mandate.seen = std::max({mandate.seen, elector.seen, elector.prepared});
  if (elector.decided.number < mandate.decided.number) {
    turn.act(Tell{agent, Decided{mandate.decided, {}}});
  } else if (elector.rank && *elector.rank < mandate.decided.size &&
             mandate.voters.emplace(agent, *elector.rank).second) {
    turn.act(Tell{agent, VoteRequest{mandate.decided.number, mandate.ballot}});
  }
  return true;
}

void begin_round(Turn& turn, Ballot ballot) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  state.phase = Phase::electing;
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
    if (!ask(turn, agent, elector)) {
      return;
    }
  }
}

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

/// Enough may have promised.
void count_promises(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (state.phase != Phase::electing || mandate.promised.empty()) {
    return;
  }
  Majority const got = majority(mandate.decided, mandate.promised);
  if (got == Majority::no && !alone(mandate)) {
    return;
  }
  if (got == Majority::half && may_come(mandate)) {  // more than half need no fence
    state.answer_deadline = state.answer_deadline.value_or(turn.now + mandate.half_after);
    if (turn.now < *state.answer_deadline) {
      return;
    }
  }
  mandate.pair = got != Majority::yes && alone(mandate);
  mandate.halved = got == Majority::half && !mandate.pair;
  turn.say(Level::info,
           "elected by " + std::to_string(mandate.promised.size()) + " of " + std::to_string(mandate.decided.size));
  if (mandate.highest) {
    mandate.proposal = mandate.highest->decree;
    mandate.adopted = true;
    propose(turn);
    return;
  }
  take_over(turn);
}

void refuse(Turn& turn, AgentId agent, std::string const& why) {
  turn.act(Tell{agent, Dropped{turn.state.number, why}});
  turn.act(HangUp{agent});
}

/// It is somebody new to this run, or a spare whose place is here now, or has been dropped by a coordinator before us.
void admit(Turn& turn, AgentId agent, Elector const& elector) {
  if (auto const refused = objection(turn.state, elector.node, turn.policy)) {
    refuse(turn, agent, refused->why);  // joins as anybody does, and is told what to do
    return;
  }
  tell_decided(turn, agent);
  if (come_in(turn, agent, elector.node)) {
    say_spare(turn, elector.node);
  }
}

/// An agent calls that has lost its coordinator, and that is us: its connection was cut, and nobody has noticed yet.
void drop_twin(Turn& turn, std::string const& incarnation) {
  State& state = turn.state;
  auto const twin = std::find_if(state.present.begin(), state.present.end(),
                                 [&](auto const& entry) { return entry.second.incarnation == incarnation; });
  if (twin != state.present.end()) {
    AgentId const agent = twin->first;
    turn.act(HangUp{agent});
    lose(turn, Lost{agent, "it has called again"});
  }
}

void follow_active(Turn& turn, Followed const& event) {
  State& state = turn.state;
  Mandate const& mandate = state.mandate;
  Elector const& elector = event.elector;
  if (state.present.contains(event.agent)) {
    return;
  }
  if (state.phase == Phase::finished) {  // it has missed the verdict
    turn.act(Tell{event.agent, Finished{state.verdict->exit_code, state.verdict->summary}});
    turn.act(HangUp{event.agent});
    return;
  }
  if (elector.decided.number > mandate.decided.number) {
    state.electors[event.agent] = elector;
    yield_to(turn, elector.decided);
    return;
  }
  if (gathering(state) && elector.decided.number == mandate.decided.number && elector.rank &&
      mandate.missing.contains(*elector.rank)) {
    state.electors[event.agent] = elector;
    state.mandate.voters.erase(event.agent);  // it calls again: whom it has promised meanwhile, we have to know
    ask(turn, event.agent, elector);
    return;
  }
  if (mandate.voters.contains(event.agent)) {  // its vote counts, and it is let in with the next generation
    state.electors[event.agent] = elector;
    return;
  }
  if (auto const why = needed(turn, elector); !why.empty()) {
    state.electors[event.agent] = elector;
    stand_down(turn, why);
    return;
  }
  drop_twin(turn, elector.node.incarnation);
  if (turn.state.phase == Phase::finished || turn.state.phase == Phase::deposed) {
    return;
  }
  if (elector.rank || elector.prepared > mandate.decided.number) {
    turn.say(Level::warn, elector.node.host + " has lost us: it may join again");
    refuse(turn, event.agent, name_of(state.number) + " goes on here without you");
    return;
  }
  admit(turn, event.agent, elector);
}

}  // namespace

void stand(Turn& turn, Stand const& event) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  bool const first = state.phase == Phase::standby;
  state.candidacy = event.candidacy;
  if (!first && !candidate(state)) {
    turn.say(Level::debug, "ignored: a candidacy while coordinating");
    return;
  }
  if (!first && (event.decided.number < mandate.decided.number ||
                 (event.decided.number == mandate.decided.number && event.ballot <= mandate.ballot))) {
    turn.say(Level::debug, "ignored: a candidacy that is no news");
    return;
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
  begin_round(turn, event.ballot);
}

void withdraw(Turn& turn, Withdraw const& event) {
  State& state = turn.state;
  if (candidate(state)) {
    state.phase = Phase::standby;
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
    turn.say(Level::debug, "no candidate any more: " + event.why);
  } else if (state.mandate.taking_over() && state.phase != Phase::finished) {
    stand_down(turn, event.why);
  }
}

void follow(Turn& turn, Followed const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby) {
    state.electors[event.agent] = event.elector;
    redirect(turn, event.agent, event.elector);
  } else if (candidate(state)) {
    auto const known = state.electors.find(event.agent);
    if (known != state.electors.end() && known->second.decided.number != event.elector.decided.number) {
      state.mandate.voters.erase(event.agent);
    }
    state.electors[event.agent] = event.elector;
    ask(turn, event.agent, event.elector);
  } else {
    follow_active(turn, event);
  }
}

void hear_vote(Turn& turn, AgentId agent, Vote const& message) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  auto const voter = mandate.voters.find(agent);
  if (voter == mandate.voters.end() || message.after != mandate.decided.number) {
    turn.say(Level::debug, "ignored: a vote after " + name_of(message.after));
    return;
  }
  if (message.promised > mandate.ballot) {
    auto const why = "node " + std::to_string(voter->second) + " has promised round " +
                     std::to_string(message.promised.round) + " to node " + std::to_string(message.promised.rank);
    if (candidate(state)) {
      mandate.promised.erase(voter->second);
      turn.say(Level::debug, why);
    } else if (state.phase != Phase::finished) {
      stand_down(turn, why);
    }
    return;
  }
  if (message.ballot != mandate.ballot || message.promised != mandate.ballot) {
    return;
  }
  TimePoint const word = turn.now - std::max(message.silent_for, Millis{0});
  mandate.last_word = std::max(mandate.last_word.value_or(word), word);
  if (state.phase == Phase::electing) {
    mandate.promised.insert(voter->second);
    if (message.accepted && (!mandate.highest || message.accepted->ballot > mandate.highest->ballot)) {
      mandate.highest = message.accepted;
    }
    count_promises(turn);
  } else if (gathering(state)) {
    if (!message.accepted) {  // more than half by now, and none of them has accepted anything: no fence is needed
      mandate.promised.insert(voter->second);
      mandate.halved = mandate.halved && majority(mandate.decided, mandate.promised) == Majority::half;
    }
    take_in(turn, agent);
  }
}

void electing_tick(Turn& turn) {
  if (turn.state.answer_deadline && *turn.state.answer_deadline <= turn.now) {
    count_promises(turn);
  }
}

void bury(Turn& turn, Buried const& event) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  Held const held{event.gone.number, event.gone.group_rank};
  if (held.first == 0) {
    turn.say(Level::debug, "ignored: the last word of a node that had no seat");
    return;
  }
  mandate.buried.insert(held);
  prove_stopped(mandate, held.first, held.second);
  bool const workers_run = state.phase == Phase::running || state.phase == Phase::stopping;
  if (workers_run && held.first == state.number && held.second < state.seats.size() &&
      state.present.contains(state.seats[held.second].agent)) {
    AgentId const agent = state.seats[held.second].agent;
    turn.act(HangUp{agent});
    lose(turn, Lost{agent, "its parent says that it is dead"});
  } else if (state.phase == Phase::forming) {
    consider_forming(turn);
  } else {
    count_promises(turn);
    try_start(turn);
  }
}

void follow_adopted(Turn& turn) {
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
    stand_down(turn, name_of(mandate.decided.number) + " is decided, and this node is no member of it");
    return;
  }
  begin_round(turn, Ballot{round + 1, *own});
}

void drop_late_electors(Turn& turn, std::string const& why) {
  auto const late = std::exchange(turn.state.electors, {});
  for (auto const& [agent, elector] : late) {
    refuse(turn, agent, why);
  }
}

}  // namespace cxxrun::rendezvous
