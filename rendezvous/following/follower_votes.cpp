#include <algorithm>
#include <utility>

#include "rendezvous/following/follower.hpp"

namespace cxxrun::rendezvous::follower {
namespace {

/// A candidate has this agent's vote: ends this agent's own campaign and gives the candidate time.
void favour(Turn& turn, LinkId id, std::string const& why) {
  State& state = turn.state;
  Link const& link = state.links.at(id);
  state.promised_to = link.coordinator;
  if (state.favoured != id) {
    if (state.favoured != 0) {  // tell the old candidate, else it counts on this agent until the silence timeout
      Acceptor const& acceptor = state.acceptor;
      turn.act(TellLink{state.favoured,
                        Vote{acceptor.after, acceptor.promised, acceptor.promised, acceptor.accepted, Millis{0}}});
    }
    state.favoured = id;
    state.next_beat = turn.now;
    send_beats(turn);
  }
  if (!state.search) {
    return;
  }
  if (state.search->campaigning && !link.own) {
    state.search->campaigning = false;
    turn.act(Withdraw{why});
  }
  state.search->until = turn.now + patience(turn.policy) * 2;
}

std::string name_of(Ballot ballot) {
  return std::to_string(ballot.round) + "." + std::to_string(ballot.rank);
}

/// Whether the sender of a Decided that this agent knows already was elected. To a voter it was only if it has the
/// voter's promise: a candidate that is not elected sends Decided, too, to agents that seem to know less.
bool may_lead(State const& state, LinkId id) {
  return obeys(state, id) && (!state.decided.rank || state.promised_to == state.links.at(id).coordinator);
}

bool is_up(State const& state, LinkId id) {
  Link const* const link = find(state, id);
  return link != nullptr && link->up;
}

}  // namespace

void hear(Turn& turn, LinkId id, VoteRequest const& message) {
  State& state = turn.state;
  if (!is_up(state, id) || !state.decided.rank || message.after != state.acceptor.after ||
      message.ballot.round < kFirstElectedRound) {
    turn.say(Level::debug, "ignored: vote asked about the generation after " + std::to_string(message.after));
    return;
  }
  Answer const answer = on_vote_request(state.acceptor, message.after, message.ballot);
  state.acceptor = answer.next;
  auto const silent =
      state.last_contact ? std::chrono::duration_cast<Millis>(turn.now - *state.last_contact) : Millis{0};
  turn.act(TellLink{id, Vote{message.after, message.ballot, answer.next.promised, answer.next.accepted, silent}});
  if (answer.yes) {
    turn.say(Level::debug, "promised ballot " + name_of(message.ballot));
    favour(turn, id, "ballot " + name_of(message.ballot) + " of another agent is promised");
  }
}

void hear(Turn& turn, LinkId id, Propose const& message) {
  State& state = turn.state;
  state.seen = std::max(state.seen, message.decree.number);
  bool const first_round = message.ballot.round < kFirstElectedRound;
  bool const entitled = !first_round || message.ballot.rank == state.decided.decree.coordinator;
  if (!is_up(state, id) || !state.decided.rank || !entitled || message.decree.after != state.acceptor.after) {
    turn.say(Level::debug, "ignored: proposal of generation " + std::to_string(message.decree.number) + " after " +
                               std::to_string(message.decree.after));
    return;
  }
  Answer const answer = on_proposal(state.acceptor, message.ballot, message.decree);
  if (!answer.yes && answer.next.promised <= message.ballot) {
    turn.say(Level::debug, "ignored: a second decree under ballot " + name_of(message.ballot));
    return;
  }
  state.acceptor = answer.next;
  turn.act(TellLink{id, Accepted{message.decree.after, message.ballot, answer.next.promised}});
  if (answer.yes && !first_round) {
    favour(turn, id, "a decree of ballot " + name_of(message.ballot) + " is accepted");
  }
}

bool hear(Turn& turn, LinkId id, Decided const& message) {
  State& state = turn.state;
  Decree const& decree = message.decree;
  state.seen = std::max(state.seen, decree.number);
  if (message.leads && decree.number == state.decided.decree.number && state.search && may_lead(state, id)) {
    follow(turn, id);
    return true;
  }
  if (!is_up(state, id) || decree.number <= state.decided.decree.number) {
    turn.say(Level::debug, "ignored: generation " + std::to_string(decree.number) + " was decided long ago");
    return false;
  }
  if (state.kept && state.kept->decree == decree) {
    state.prepared = std::move(state.kept);
  }
  state.kept.reset();
  bool const member =
      state.prepared && state.prepared->number == decree.number && state.prepared->decree.members == decree.members;
  if (member) {
    adopt(turn);
  } else {
    state.decided.rank.reset();
    state.decided.begun.reset();
    state.suspects.clear();
    state.dead.clear();
    state.decided.pair = false;
    state.decided.hosts.clear();
    state.acceptor = Acceptor{};
    state.promised_to.clear();
    state.favoured = 0;
    state.round = 0;
  }
  state.decided.decree = decree;
  if (!message.successors.empty()) {
    state.decided.successors = message.successors;
    state.decided.survives = true;
    pass_on(turn);
  }
  if (state.prepared && state.prepared->number <= decree.number) {
    state.prepared.reset();
  }
  state.last_contact.reset();  // its coordinator may have granted leases that are not known here
  turn.say(Level::debug, "learned that generation " + std::to_string(decree.number) + " is decided");
  if (state.search) {
    search_in(turn, message.leads && !message.successors.empty() ? id : 0);  // a leader names its successors
  }
  return true;
}

FollowerInfo follower_info(Turn const& turn) {
  State const& state = turn.state;
  FollowerInfo follower_info;
  follower_info.decided = state.decided.decree;
  follower_info.rank = state.decided.rank;
  if (state.prepared) {
    follower_info.prepared = state.prepared->number;
    follower_info.prepared_rank = state.prepared->group_rank;
    follower_info.prepared_members = state.prepared->decree.members;
  }
  follower_info.seen = state.seen;
  follower_info.workers = turn.workers;
  follower_info.steps = turn.steps;
  if (state.decided.begun) {
    follower_info.begun_for = std::chrono::duration_cast<Millis>(turn.now - *state.decided.begun);
  }
  for (auto const& [rank, since] : state.dead) {
    follower_info.dead.push_back({rank, std::chrono::duration_cast<Millis>(turn.now - since)});
  }
  return follower_info;
}

void tell_again(Turn& turn) {
  for (auto const& [id, link] : turn.state.links) {
    if (link.up && link.dialled && turn.state.search) {
      turn.act(TellLink{id, follower_info(turn)});
    }
  }
}

}  // namespace cxxrun::rendezvous::follower
