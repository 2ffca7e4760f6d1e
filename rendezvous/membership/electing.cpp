#include "rendezvous/membership/electing.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/history/budget.hpp"
#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/succession.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Somebody has not promised who is not proven dead: maybe only late to notice the loss.
bool may_come(State const& state) {
  Proposer const& proposer = state.proposer;
  for (std::uint32_t rank = 0; rank < proposer.decided.size; ++rank) {
    if (!proposer.promised.contains(rank) && !state.election.dead.contains(Held{proposer.decided.number, rank})) {
      return true;
    }
  }
  return false;
}

/// The pair rule: the only other member is proven dead, so the promise of ours is enough.
bool alone(State const& state) {
  return state.election.two_nodes && state.proposer.decided.size == 2 && state.proposer.promised.size() == 1 &&
         !may_come(state);
}

}  // namespace

Next yield_to(Turn& turn, Decree const& later) {
  for (auto const& [agent, follower_info] : turn.state.election.followers) {
    if (follower_info.decided.number < later.number) {
      turn.act(Tell{agent, Decided{later, {}}});
    }
  }
  for (auto const& [agent, node] : turn.state.roster.present) {
    turn.act(Tell{agent, Decided{later, {}}});
  }
  return next::Deposed{name_of(later.number) + " is decided already"};
}

Next ask(Turn& turn, AgentId agent, FollowerInfo const& follower_info) {
  Proposer& proposer = turn.state.proposer;
  Election& election = turn.state.election;
  if (follower_info.decided.number > proposer.decided.number) {
    return yield_to(turn, follower_info.decided);
  }
  election.seen = std::max({election.seen, follower_info.seen, follower_info.prepared});
  if (follower_info.decided.number < proposer.decided.number) {
    turn.act(Tell{agent, Decided{proposer.decided, {}}});
  } else if (follower_info.rank && *follower_info.rank < proposer.decided.size &&
             election.voters.emplace(agent, *follower_info.rank).second) {
    turn.act(Tell{agent, VoteRequest{proposer.decided.number, proposer.ballot}});
  }
  return stay;
}

Next hear(Turn& turn, Campaign const& event) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  bool const first = state.phase == Phase::standby;
  state.election.campaign_id = event.campaign_id;
  if (!first && !candidate(state)) {
    turn.say(Level::debug, "ignored: a campaign while coordinating", "ignored");
    return stay;
  }
  if (!first && (event.decided.number < proposer.decided.number ||
                 (event.decided.number == proposer.decided.number && event.ballot <= proposer.ballot))) {
    turn.say(Level::debug, "ignored: a campaign that is no news", "ignored");
    return stay;
  }
  proposer.decided = event.decided;
  election.seen = std::max({election.seen, event.seen, event.decided.number});
  election.two_nodes = event.pair;
  election.half_after = event.half_after;
  election.seats_kept_until = turn.now + event.half_after;
  election.successors = event.successors;
  state.number = std::max(state.number, event.decided.number);
  inherit_decree(state.restarts, event.decided, turn.now, turn.policy);
  inherit(state.ledger, event.decided.history, event.job_began, turn.now);
  inherit_faults(state.roster.fitness, event.decided.faults);
  state.election.old_hosts = event.hosts;
  return next::Electing{event.ballot};
}

Next begin(Turn& turn, next::Electing const& what) {
  State& state = turn.state;
  state.timers.answer.reset();
  begin_round(state.proposer, what.ballot);
  state.election.voters.clear();
  turn.say(Level::info, "campaigns after " + name_of(state.proposer.decided.number) + ", round " +
                            std::to_string(what.ballot.round));
  auto const followers = state.election.followers;
  for (auto const& [agent, follower_info] : followers) {
    if (Next next = ask(turn, agent, follower_info); !std::holds_alternative<next::Stay>(next)) {
      return next;
    }
  }
  return stay;
}

Next hear(Turn& turn, Withdraw const& event) {
  State const& state = turn.state;
  if (candidate(state)) {
    return next::Standby{event.why};
  }
  bool const stands = state.proposer.taking_over() && state.phase != Phase::finished;
  return stands ? Next{next::Deposed{event.why}} : Next{stay};
}

Next begin(Turn& turn, next::Standby const& what) {
  State& state = turn.state;
  state.timers.answer.reset();
  give_up(state.proposer);
  state.election.voters.clear();
  for (auto const& [agent, follower_info] : std::exchange(state.election.followers, {})) {
    turn.act(HangUp{agent});  // who has promised us looks for another one
  }
  for (auto const& [agent, node] : std::exchange(state.roster.present, {})) {
    turn.act(HangUp{agent});  // came while another's decree was being decided
  }
  state.roster.index_owner.clear();
  turn.say(Level::debug, "no candidate any more: " + what.why);
  return stay;
}

Next hear_vote(Turn& turn, AgentId agent, Vote const& message) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  auto const voter = state.election.voters.find(agent);
  if (voter == state.election.voters.end() || message.after != proposer.decided.number) {
    turn.say(Level::debug, "ignored: a vote after " + name_of(message.after), "ignored");
    return stay;
  }
  std::uint32_t const member = voter->second;
  if (message.promised > proposer.ballot) {
    auto const why = "node " + std::to_string(member) + " has promised round " +
                     std::to_string(message.promised.round) + " to node " + std::to_string(message.promised.rank);
    if (hear_refusal(proposer, member) == Outcome::lost) {
      return next::Deposed{why};
    }
    turn.say(Level::debug, why);
    return stay;
  }
  if (message.ballot != proposer.ballot || message.promised != proposer.ballot) {
    return stay;
  }
  TimePoint const word = turn.now - std::max(message.silent_for, Millis{0});
  state.election.last_contact = std::max(state.election.last_contact.value_or(word), word);
  if (state.phase == Phase::electing) {
    hear_promise(proposer, member, message.accepted);
    return count_promises(turn);
  }
  if (gathering(state)) {
    hear_promise(proposer, member, message.accepted);
    return take_in(turn, agent);
  }
  return stay;
}

Next count_promises(Turn& turn) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Outcome outcome = count(proposer);
  if (outcome != Outcome::elected && alone(state)) {
    outcome = survive(proposer);
  } else if (outcome == Outcome::half) {
    if (may_come(state)) {  // more than half need no fence
      state.timers.answer = state.timers.answer.value_or(turn.now + state.election.half_after);
      if (turn.now < *state.timers.answer) {
        return stay;
      }
    }
    outcome = half_is_all(proposer);
  }
  if (outcome != Outcome::elected) {
    return stay;
  }
  turn.say(Level::info,
           "elected by " + std::to_string(proposer.promised.size()) + " of " + std::to_string(proposer.decided.size));
  return proposer.adopted() ? Next{next::Proposing{}} : take_over(turn);
}

Next electing_tick(Turn& turn) {
  return is_due(turn.state.timers.answer, turn.now) ? count_promises(turn) : Next{stay};
}

Next campaign_after_adopted(Turn& turn, std::uint32_t round) {
  State& state = turn.state;
  Decree const decided = state.proposer.decided;
  inherit_decree(state.restarts, decided, turn.now, turn.policy);
  inherit(state.ledger, decided.history, state.ledger.start, turn.now);
  inherit_faults(state.roster.fitness, decided.faults);
  state.number = std::max(state.number, decided.number);
  state.election.seen = std::max(state.election.seen, decided.number);
  state.election.seats_kept_until = turn.now + state.election.half_after;
  turn.say(Level::info,
           name_of(decided.number) + " was accepted before its coordinator was lost: decided, not started");
  std::optional<std::uint32_t> own;
  for (auto& [agent, follower_info] : state.election.followers) {
    turn.act(Tell{agent, Decided{decided, {}}});
    auto const rank = ready_rank(follower_info, decided);
    // What it has said of its workers, and of dead seats, was of the generation before.
    follower_info = {follower_info.node,
                     decided,
                     rank,
                     follower_info.prepared,
                     follower_info.prepared_rank,
                     follower_info.prepared_members,
                     follower_info.seen};
    if (follower_info.node.coordinates) {
      own = follower_info.rank;
    }
  }
  if (!own) {
    return next::Deposed{name_of(decided.number) + " is decided, and this node is no member of it"};
  }
  return next::Electing{Ballot{round, *own}};
}

std::optional<AgentId> hear_death_notice(Turn& turn, Gone const& gone) {
  State& state = turn.state;
  Held const held{gone.number, gone.group_rank};
  note_dead(state, held, turn.now);
  if (held.first == state.number && held.second < state.group.seats.size()) {
    state.roster.cut.erase(node_key(state.group.seats[held.second].node));
  }
  if (!workers_may_run(state.phase) || held.first != state.number || held.second >= state.group.seats.size()) {
    return std::nullopt;
  }
  AgentId const agent = state.group.seats[held.second].agent;
  return state.roster.present.contains(agent) ? std::optional(agent) : std::nullopt;
}

}  // namespace cxxrun::rendezvous
