#include "rendezvous/following/follower.hpp"

#include <algorithm>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous::follower {
namespace {

constexpr Millis kPatienceWithoutHeartbeats{5000};
/// A coordinator that thousands call at once may answer first beats late: it has this many timeouts for that.
constexpr int kFirstAnswer = 4;

/// Whether the other end must get no echoes any more: another candidate has our promise of a higher ballot.
bool muted(State const& state, Link const& link) {
  return state.acceptor.promised.round >= kFirstElectedRound && link.coordinator != state.promised_to;
}

/// The newest generation in which this agent has a seat; 0: none.
std::uint64_t seat(State const& state) {
  if (state.prepared) {
    return state.prepared->number;
  }
  return state.decided.rank ? state.decided.decree.number : 0;
}

void beat(Turn& turn, LinkId id) {
  Link* const link = find(turn.state, id);
  if (link != nullptr && link->up) {
    link->asked = link->asked.value_or(turn.now);
    Beat const message{own_time(turn.now), muted(turn.state, *link) ? 0 : link->echo, seat(turn.state)};
    turn.act(TellBeat{id, message});
  }
}

/// Without an address or port: Dial then calls wherever the coordinator was looked for, not only where it was reached.
Successor coordinator_of(Known const& decided) {
  Successor to;
  to.rank = decided.decree.coordinator;
  auto const known = std::find_if(decided.successors.begin(), decided.successors.end(),
                                  [&](Successor const& each) { return each.rank == to.rank; });
  to.host = known == decided.successors.end() ? "" : known->host;
  return to;
}

}  // namespace

Millis patience(Policy const& policy) {
  return policy.lease.timeout > Millis{0} ? policy.lease.timeout : kPatienceWithoutHeartbeats;
}

void link_up(Turn& turn, LinkId id, std::string const& coordinator, bool relayed) {
  Link* const link = find(turn.state, id);
  if (link == nullptr || link->up) {
    return;
  }
  bool const called_back = turn.state.recall && turn.state.recall->link == id;
  if (called_back && !turn.state.decided.rank) {  // a spare has no vote: it follows at once
    turn.act(TellLink{id, follower_info(turn)});
    turn.state.recall.reset();
    turn.state.main = id;
  }
  if (id != turn.state.main && !turn.state.search && !called_back) {  // a suspect answers, so it is alive
    turn.state.suspects.erase(link->to.rank);
    turn.state.links.erase(id);
    turn.act(HangUp{id});
    return;
  }
  link->up = true;
  link->coordinator = coordinator;
  link->relayed = relayed;
  if (id == turn.state.main) {
    if (turn.policy.lease.beat > Millis{0}) {
      link->heard = turn.now + turn.policy.lease.timeout * (kFirstAnswer - 1);
    }
    turn.state.next_beat = turn.now;
    send_beats(turn);
  } else {
    turn.act(TellLink{id, follower_info(turn)});
  }
}

void send_beats(Turn& turn) {
  State& state = turn.state;
  if (turn.policy.lease.beat <= Millis{0} || !state.next_beat || turn.now < *state.next_beat) {
    return;
  }
  beat(turn, state.main);
  if (state.favoured != state.main) {
    beat(turn, state.favoured);
  }
  Millis const beat_every = turn.policy.lease.beat;
  Link const* const main = find(state, state.main);
  bool const probing = main != nullptr && main->asked && turn.now >= *main->asked + beat_every;
  state.next_beat = turn.now + (probing ? beat_every / kProbesPerBeat : beat_every);
}

void answered(Turn& turn, LinkId id, BeatAck const& ack) {
  Link* const link = find(turn.state, id);
  if (link == nullptr || !link->up) {
    return;
  }
  link->heard = turn.now;
  link->asked.reset();
  link->echo = std::max(link->echo, ack.sent);
  if (id == turn.state.main) {
    turn.state.last_contact = turn.now;
  }
}

void heard(Turn& turn, OwnTime sent) {
  turn.state.last_contact = turn.now;
  if (Link* const link = find(turn.state, turn.state.main)) {
    link->echo = std::max(link->echo, sent);
  }
}

Ack ready(Turn& turn, Generation const& generation) {
  State& state = turn.state;
  auto const& accepted = state.acceptor.accepted;
  if (state.prepared && accepted && accepted->decree == state.prepared->decree) {
    state.kept = std::move(state.prepared);
  }
  state.prepared = generation;
  state.seen = std::max(state.seen, generation.number);
  Link const* const link = find(state, state.main);
  bool const silenced = link != nullptr && muted(state, *link);
  return Ack{generation.number, silenced ? 0 : state.prepared_sent, own_time(turn.now)};
}

void pass_on(Turn& turn) {
  Known const& decided = turn.state.decided;
  if (decided.survives && !decided.successors.empty() && decided.rank != decided.decree.coordinator) {
    turn.act(Learned{decided.decree, decided.successors});
  }
}

void adopt(Turn& turn) {
  State& state = turn.state;
  if (!state.prepared) {
    return;
  }
  Generation const generation = *std::move(state.prepared);
  state.prepared.reset();
  state.kept.reset();
  bool const same = state.decided.decree.number == 0 ||
                    (state.decided.pair && generation.decree.members == state.decided.decree.members);
  state.decided.pair = same && generation.group_size == 2;
  state.decided.decree = generation.decree;
  state.decided.decree.number = generation.number;
  state.decided.rank = generation.group_rank;
  state.decided.successors = generation.successors;
  state.decided.led = !generation.coordinator.empty();
  state.decided.begun.reset();
  state.suspects.clear();
  state.dead.clear();
  state.decided.survives = generation.survives && state.decided.led;
  state.decided.hosts = generation.hosts;
  state.acceptor = on_decided(state.acceptor, generation.number);
  state.promised_to.clear();
  state.favoured = 0;
  state.round = 0;
  state.last_contact = turn.now;
  pass_on(turn);
}

void started(Turn& turn, std::uint64_t number) {
  adopt(turn);
  if (turn.state.decided.decree.number == number) {
    turn.state.decided.begun = turn.now;
  }
}

bool obeys(State const& state, LinkId id) {
  if (id == state.main) {
    return true;
  }
  Link const* const link = find(state, id);
  return link != nullptr && link->up && state.search && (!state.decided.rank || !muted(state, *link));
}

void follow(Turn& turn, LinkId id) {
  State& state = turn.state;
  Link* const link = find(state, id);
  if (link == nullptr || id == state.main) {
    return;
  }
  if (state.search && state.search->campaigning && !link->own) {
    turn.act(Withdraw{"another agent coordinates"});
  }
  state.search.reset();
  for (auto& [rank, suspect] : state.suspects) {
    suspect.again = turn.now;
  }
  state.main = id;
  if (state.favoured != id) {
    state.favoured = 0;
  }
  link->heard = turn.now;
  for (auto const& [other, its_link] : state.links) {
    if (other != id) {
      turn.act(HangUp{other});
    }
  }
  std::erase_if(state.links, [id](auto const& entry) { return entry.first != id; });
  state.next_beat = turn.now;
  send_beats(turn);
}

bool leads(State const& state) {
  Link const* const main = find(state, state.main);
  return main != nullptr &&
         (main->own || (!main->dialled && state.decided.rank &&
                        state.decided.decree.coordinator == *state.decided.rank && state.decided.decree.number > 0));
}

void excuse_silence(Turn& turn) {
  for (auto& [id, link] : turn.state.links) {
    if (link.heard) {
      link.heard = std::max(*link.heard, turn.now);
    }
  }
}

bool is_silent(State const& state, TimePoint now, Policy const& policy) {
  Link const* const main = find(state, state.main);
  return policy.lease.timeout > Millis{0} && main != nullptr && main->heard &&
         now >= *main->heard + policy.lease.silence();
}

std::optional<TimePoint> due(State const& state, Policy const& policy) {
  Link const* const main = find(state, state.main);
  bool const beats = policy.lease.beat > Millis{0} && (main != nullptr || state.favoured != 0);
  bool const watched = policy.lease.timeout > Millis{0} && main != nullptr && main->heard;
  return earliest({search_due(state), beats ? state.next_beat : std::nullopt,
                   watched ? std::optional(*main->heard + policy.lease.silence()) : std::nullopt});
}

// ---- calling a lost coordinator again ----

Millis recall_time(Policy const& policy) {
  return patience(policy) * 2 / 5;
}

void recall(Turn& turn, std::string how) {
  abandon(turn, "nobody can take over");
  Recall recall;
  recall.how = std::move(how);
  recall.again = turn.now;
  recall.until = turn.now + recall_time(turn.policy);
  turn.state.recall = std::move(recall);
  call_again(turn);
}

bool is_lost_for_good(State const& state, TimePoint now) {
  return state.recall && (state.recall->over || now >= state.recall->until);
}

bool recall_failed(Turn& turn, LinkId id, bool refused) {
  auto& recall = turn.state.recall;
  if (!recall || recall->link != id) {
    return false;
  }
  turn.state.links.erase(id);
  recall->link = 0;
  recall->over = refused;
  recall->again = turn.now + turn.policy.spacing;
  return true;
}

void call_again(Turn& turn) {
  auto& recall = turn.state.recall;
  if (!recall || recall->link != 0 || turn.now < recall->again) {
    return;
  }
  Link link;
  link.to = coordinator_of(turn.state.decided);
  link.dialled = true;
  recall->link = ++turn.state.last_link;
  turn.act(Dial{recall->link, link.to});
  turn.state.links.emplace(recall->link, std::move(link));
}

// ---- searching ----

bool can_search(State const& state) {
  return state.decided.decree.number > 0 && state.decided.survives && !state.decided.successors.empty();
}

std::string partitioned_line(State const& state) {
  auto const& decided = state.decided;
  std::vector<std::string> reached;
  for (auto const& [id, link] : state.links) {
    if (link.up && !link.own) {
      reached.push_back(link.to.host);
    }
  }
  std::vector<std::string> heirs;
  bool is_heir = false;
  for (auto const& successor : decided.successors) {
    if (successor.rank != decided.decree.coordinator) {
      heirs.push_back(successor.host);
      is_heir = is_heir || successor.rank == decided.rank;
    }
  }
  std::string const generation = "generation " + std::to_string(decided.decree.number);
  std::string const majority = "), and no majority of the " + std::to_string(decided.decree.size) + " nodes of " +
                               generation + " could be reached; reached " +
                               (reached.empty() ? "nobody" : join(reached, ", "));
  bool const hopeless = !is_heir && reached.empty();
  std::string const why = heirs.empty() ? "), and no other node of " + generation + " could take over"
                          : hopeless ? "), and none of the nodes that could take over was reached: " + join(heirs, ", ")
                                     : majority;
  bool const halves = !heirs.empty() && !hopeless && decided.decree.size % 2 == 0 && decided.decree.tie == Tie::rank;
  return "partitioned: coordinator lost (" + (state.search ? state.search->how : std::string("gone")) + why +
         "; start the job again with the nodes that are left (--nnodes MIN:MAX)" +
         (halves ? ", and to let half of the nodes go on give --fence=DIR on a shared file system" : "");
}

}  // namespace cxxrun::rendezvous::follower
