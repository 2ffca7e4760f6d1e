#include "rendezvous/membership/electing.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/budget.hpp"
#include "rendezvous/membership/succession.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Somebody has not promised who is not proven dead: maybe only late to notice the loss.
bool may_come(Leadership const& leadership) {
  for (std::uint32_t rank = 0; rank < leadership.decided.size; ++rank) {
    if (!leadership.promised.contains(rank) &&
        !leadership.confirmed_dead.contains(Held{leadership.decided.number, rank})) {
      return true;
    }
  }
  return false;
}

/// The pair rule: the only other member is proven dead, so the promise of ours is enough.
bool alone(Leadership const& leadership) {
  return leadership.two_nodes && leadership.decided.size == 2 && leadership.promised.size() == 1 &&
         !may_come(leadership);
}

}  // namespace

std::string name_of(std::uint64_t number) {
  return "generation " + std::to_string(number);
}

/// Waiting for members of the last generation; nothing of ours has begun.
bool candidate(State const& state) {
  return state.phase == Phase::electing || (state.phase == Phase::proposing && state.leadership.adopted);
}

/// Elected, and the generation that follows is not formed yet: a member that calls keeps its seat.
bool gathering(State const& state) {
  return state.leadership.taking_over() && (state.phase == Phase::stopping || state.phase == Phase::forming);
}

/// Somebody knows a later decision than ours: everybody here hears of it, and we have nothing to decide.
Next yield_to(Turn& turn, Decree const& later) {
  for (auto const& [agent, follower_info] : turn.state.followers) {
    if (follower_info.decided.number < later.number) {
      turn.act(Tell{agent, Decided{later, {}}});
    }
  }
  for (auto const& [agent, node] : turn.state.present) {
    turn.act(Tell{agent, Decided{later, {}}});
  }
  return next::Deposed{name_of(later.number) + " is decided already"};
}

Next ask(Turn& turn, AgentId agent, FollowerInfo const& follower_info) {
  Leadership& leadership = turn.state.leadership;
  if (follower_info.decided.number > leadership.decided.number) {
    return yield_to(turn, follower_info.decided);
  }
  leadership.seen = std::max({leadership.seen, follower_info.seen, follower_info.prepared});
  if (follower_info.decided.number < leadership.decided.number) {
    turn.act(Tell{agent, Decided{leadership.decided, {}}});
  } else if (follower_info.rank && *follower_info.rank < leadership.decided.size &&
             leadership.voters.emplace(agent, *follower_info.rank).second) {
    turn.act(Tell{agent, VoteRequest{leadership.decided.number, leadership.ballot}});
  }
  return stay;
}

Next start_campaign(Turn& turn, Campaign const& event) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  bool const first = state.phase == Phase::standby;
  state.campaign_id = event.campaign_id;
  if (!first && !candidate(state)) {
    turn.say(Level::debug, "ignored: a campaign while coordinating");
    return stay;
  }
  if (!first && (event.decided.number < leadership.decided.number ||
                 (event.decided.number == leadership.decided.number && event.ballot <= leadership.ballot))) {
    turn.say(Level::debug, "ignored: a campaign that is no news");
    return stay;
  }
  leadership.decided = event.decided;
  leadership.seen = std::max({leadership.seen, event.seen, event.decided.number});
  leadership.two_nodes = event.pair;
  leadership.half_after = event.half_after;
  leadership.successors = event.successors;
  state.number = std::max(state.number, event.decided.number);
  inherit_restarts(state, std::max(event.restarts, event.decided.restarts), turn.now, turn.policy);
  state.old_hosts = event.hosts;
  if (event.pair && event.peer_dead && event.decided.size == 2) {
    leadership.confirmed_dead.insert(Held{event.decided.number, 1 - std::min(event.ballot.rank, 1U)});
  }
  leadership.tries += first ? 0 : 1;
  return next::Electing{event.ballot};
}

Next begin_electing(Turn& turn, Ballot ballot) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  state.answer_deadline.reset();
  leadership.ballot = ballot;
  leadership.proposal.reset();
  leadership.highest.reset();
  leadership.voters.clear();
  leadership.promised.clear();
  leadership.accepted.clear();
  leadership.adopted = leadership.halved = leadership.claiming = leadership.claimed = leadership.proposed =
      leadership.pair = false;
  turn.say(Level::info,
           "campaigns after " + name_of(leadership.decided.number) + ", round " + std::to_string(ballot.round));
  auto const followers = state.followers;
  for (auto const& [agent, follower_info] : followers) {
    if (Next next = ask(turn, agent, follower_info); !std::holds_alternative<next::Stay>(next)) {
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
  bool const stands = state.leadership.taking_over() && state.phase != Phase::finished;
  return stands ? Next{next::Deposed{event.why}} : Next{stay};
}

void begin_standby(Turn& turn, std::string const& why) {
  State& state = turn.state;
  state.answer_deadline.reset();
  state.leadership.ballot = {};
  state.leadership.voters.clear();
  state.leadership.promised.clear();
  state.leadership.proposal.reset();
  state.leadership.adopted = false;
  for (auto const& [agent, follower_info] : std::exchange(state.followers, {})) {
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
  Leadership& leadership = state.leadership;
  auto const voter = leadership.voters.find(agent);
  if (voter == leadership.voters.end() || message.after != leadership.decided.number) {
    turn.say(Level::debug, "ignored: a vote after " + name_of(message.after));
    return stay;
  }
  if (message.promised > leadership.ballot) {
    auto const why = "node " + std::to_string(voter->second) + " has promised round " +
                     std::to_string(message.promised.round) + " to node " + std::to_string(message.promised.rank);
    if (candidate(state)) {
      leadership.promised.erase(voter->second);
      turn.say(Level::debug, why);
    } else if (state.phase != Phase::finished) {
      return next::Deposed{why};
    }
    return stay;
  }
  if (message.ballot != leadership.ballot || message.promised != leadership.ballot) {
    return stay;
  }
  TimePoint const word = turn.now - std::max(message.silent_for, Millis{0});
  leadership.last_contact = std::max(leadership.last_contact.value_or(word), word);
  if (state.phase == Phase::electing) {
    leadership.promised.insert(voter->second);
    if (message.accepted && (!leadership.highest || message.accepted->ballot > leadership.highest->ballot)) {
      leadership.highest = message.accepted;
    }
    return count_promises(turn);
  }
  if (gathering(state)) {
    if (!message.accepted) {  // more than half by now, and none of them has accepted anything: no fence is needed
      leadership.promised.insert(voter->second);
      leadership.halved = leadership.halved && majority(leadership.decided, leadership.promised) == Majority::half;
    }
    return take_in(turn, agent);
  }
  return stay;
}

/// Enough may have promised.
Next count_promises(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  if (state.phase != Phase::electing || leadership.promised.empty()) {
    return stay;
  }
  Majority const got = majority(leadership.decided, leadership.promised);
  if (got == Majority::no && !alone(leadership)) {
    return stay;
  }
  if (got == Majority::half && may_come(leadership)) {  // more than half need no fence
    state.answer_deadline = state.answer_deadline.value_or(turn.now + leadership.half_after);
    if (turn.now < *state.answer_deadline) {
      return stay;
    }
  }
  leadership.pair = got != Majority::yes && alone(leadership);
  leadership.halved = got == Majority::half && !leadership.pair;
  turn.say(Level::info, "elected by " + std::to_string(leadership.promised.size()) + " of " +
                            std::to_string(leadership.decided.size));
  if (leadership.highest) {
    leadership.proposal = leadership.highest->decree;
    leadership.adopted = true;
    return next::Proposing{};
  }
  return take_over(turn);
}

Next electing_tick(Turn& turn) {
  return is_due(turn.state.answer_deadline, turn.now) ? count_promises(turn) : Next{stay};
}

Next campaign_after_adopted(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  std::uint32_t const round = leadership.ballot.round;
  note_decided(leadership);
  inherit_restarts(state, leadership.decided.restarts, turn.now, turn.policy);
  state.number = std::max(state.number, leadership.decided.number);
  leadership.seen = std::max(leadership.seen, leadership.decided.number);
  turn.say(Level::info,
           name_of(leadership.decided.number) + " was accepted before its coordinator was lost: decided, not started");
  std::optional<std::uint32_t> own;
  for (auto& [agent, follower_info] : state.followers) {
    turn.act(Tell{agent, Decided{leadership.decided, {}}});
    bool const member = follower_info.prepared == leadership.decided.number;
    follower_info.rank = member ? follower_info.prepared_rank : std::nullopt;
    follower_info.decided = leadership.decided;
    follower_info.workers = false;
    if (follower_info.node.coordinates) {
      own = follower_info.rank;
    }
  }
  if (!own) {
    return next::Deposed{name_of(leadership.decided.number) + " is decided, and this node is no member of it"};
  }
  return next::Electing{Ballot{round + 1, *own}};
}

std::optional<AgentId> hear_death_notice(Turn& turn, Gone const& gone) {
  State& state = turn.state;
  Held const held{gone.number, gone.group_rank};
  state.leadership.confirmed_dead.insert(held);
  prove_stopped(state.leadership, held.first, held.second);
  bool const workers_run = state.phase == Phase::running || state.phase == Phase::stopping;
  if (!workers_run || held.first != state.number || held.second >= state.seats.size()) {
    return std::nullopt;
  }
  AgentId const agent = state.seats[held.second].agent;
  return state.present.contains(agent) ? std::optional(agent) : std::nullopt;
}

}  // namespace cxxrun::rendezvous
