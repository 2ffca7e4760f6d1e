#include <algorithm>
#include <cassert>
#include <utility>

#include "rendezvous/following/follower.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/hostlist.hpp"

namespace cxxrun::rendezvous::follower {
namespace {

/// A spare waits for this many times the rounds of a voter, as long as it has a link to a possible coordinator.
constexpr std::uint32_t kPatientRounds = 5;

std::string where(Successor const& successor) {
  return successor.address + " " + std::to_string(successor.port);
}

bool is_own(State const& state, Successor const& successor) {
  return state.decided.rank && *state.decided.rank == successor.rank;
}

/// The first successor for which `holds` is true; null: none.
template <class Holds>
Successor const* find_successor(State const& state, Holds const& holds) {
  auto const& all = state.decided.successors;
  auto const found = std::find_if(all.begin(), all.end(), holds);
  return found == all.end() ? nullptr : &*found;
}

/// Null: this agent cannot take over.
Successor const* own_successor(State const& state) {
  return find_successor(state, [&](Successor const& each) { return is_own(state, each); });
}

/// How long to wait before calling an address again that refused.
Millis pause_after_refusal(Policy const& policy) {
  return patience(policy) / 5;
}

/// When this successor is called, or campaigns if it is this agent.
struct SearchTurn {
  Successor const* successor = nullptr;
  TimePoint at;
};

/// The turns of a round, `spacing` apart in rank order. Dead addresses take no time. The lost coordinator may be alive
/// after all: it is called at once, but campaigns last.
std::vector<SearchTurn> turns(State const& state) {
  assert(state.search);
  Search const& search = *state.search;
  std::vector<SearchTurn> result;
  Millis offset{0};
  Successor const* lost = nullptr;
  for (auto const& successor : state.decided.successors) {
    if (where(successor) == search.lost) {
      lost = &successor;
      continue;
    }
    result.push_back({&successor, search.since + offset});
    if (!search.dead.contains(where(successor))) {
      offset += search.spacing;
    }
  }
  if (lost != nullptr) {
    result.push_back({lost, is_own(state, *lost) ? search.since + offset : search.since});
  }
  for (auto& [successor, at] : result) {
    if (auto const it = search.again.find(where(*successor)); it != search.again.end()) {
      at = std::max(at, it->second);
    }
  }
  return result;
}

bool is_called(State const& state, Successor const& successor) {
  return std::any_of(state.links.begin(), state.links.end(), [&](auto const& entry) {
    return entry.second.dialled && where(entry.second.to) == where(successor);
  });
}

void dial(Turn& turn, Successor const& successor) {
  State& state = turn.state;
  if (is_called(state, successor)) {
    return;
  }
  Link link;
  link.to = successor;
  link.dialled = true;
  link.own = is_own(state, successor);
  state.links.emplace(++state.last_link, std::move(link));
  turn.act(Dial{state.last_link, successor});
}

/// Suspects the lost coordinator of being dead. An orderly end without a goodbye and a refused port prove it: its agent
/// and that one's parent hold the port until everything they started is gone. Not if its address is a loopback address
/// of another host, and not with a fence, where a coordinator that has stepped down may still claim it.
void suspect(Turn& turn, std::string const& lost) {
  State& state = turn.state;
  auto const* const own = own_successor(state);
  auto const* const it = find_successor(state, [&](Successor const& each) { return where(each) == lost; });
  if (turn.policy.tie == Tie::fence || it == nullptr || it == own) {
    return;
  }
  if (!is_loopback(it->address) || (own != nullptr && own->host == it->host)) {
    state.suspects.insert_or_assign(it->rank, Suspect{*it, turn.now});
  }
}

/// A new coordinator leads already and waits for the suspects' workers, since the port of a dying host may not have
/// refused the first call. Only possible successors and spares call again, to limit the load. Spares send little, so
/// there is seldom unread data that turns their orderly end into a reset.
bool asks_after_suspects(State const& state) {
  return !state.search && state.main != 0 && (own_successor(state) != nullptr || !state.decided.rank);
}

void call_suspects(Turn& turn) {
  if (!asks_after_suspects(turn.state)) {
    return;
  }
  for (auto const& [rank, suspect] : turn.state.suspects) {
    if (turn.now >= suspect.again) {
      dial(turn, suspect.at);
    }
  }
}

void called_suspect(Turn& turn, Successor const& called, bool refused) {
  State& state = turn.state;
  auto const it = state.suspects.find(called.rank);
  if (it == state.suspects.end() || where(it->second.at) != where(called)) {
    return;
  }
  if (!refused) {
    it->second.again = turn.now + turn.policy.spacing;
    return;
  }
  state.suspects.erase(it);
  state.dead.emplace(called.rank, turn.now);
  if (state.search) {
    tell_again(turn);
  } else if (state.main != 0) {
    turn.act(TellLink{state.main, follower_info(turn)});
  }
}

void start_campaign(Turn& turn, Successor const& own) {
  State& state = turn.state;
  state.search->campaigned = true;
  if (state.favoured != 0 && !state.links.at(state.favoured).own) {
    return;  // another candidate has our promise and gets its time
  }
  state.round = std::max({state.acceptor.promised.round, state.round, kFirstElectedRound - 1}) + 1;
  rendezvous::Campaign campaign;
  campaign.decided = state.decided.decree;
  campaign.ballot = Ballot{state.round, own.rank};
  campaign.seen = std::max(state.seen, state.decided.decree.number);
  if (auto hosts = expand_hostlist(state.decided.hosts); hosts && hosts->size() == state.decided.decree.size) {
    campaign.hosts = *std::move(hosts);
  }
  campaign.pair = turn.policy.pair && state.decided.pair;
  campaign.campaign_id = ++state.campaign_id;
  campaign.successors = state.decided.successors;
  campaign.job_began = state.job_began;
  campaign.job_end = state.job_end;
  campaign.half_after = turn.policy.spacing * 2 + turn.policy.lease.beat;
  state.search->campaigning = true;
  state.search->until = turn.now + patience(turn.policy) * 2;
  turn.act(StartCampaign{std::move(campaign)});
  dial(turn, own);
  turn.say(Level::debug, "campaigns in round " + std::to_string(state.round));
}

/// Calls the successors whose turn has come, and campaigns if it is our own turn.
void take_turns(Turn& turn) {
  State& state = turn.state;
  Successor const* own = nullptr;
  for (auto const& [successor, at] : turns(state)) {
    if (turn.now < at) {
      continue;
    }
    if (is_own(state, *successor)) {
      if (!state.search->campaigned) {
        own = successor;
      }
    } else if (state.search->called.insert(where(*successor)).second) {
      dial(turn, *successor);
    }
  }
  if (own != nullptr) {
    start_campaign(turn, *own);
  }
}

/// An agent that did not listen or hung up may still come to lead, or may have led all along behind a partition.
void call_later(Turn& turn, Successor const& successor, Millis after) {
  turn.state.search->called.erase(where(successor));
  turn.state.search->again[where(successor)] = turn.now + after;
}

void begin_round(Turn& turn, Millis spacing) {
  Search& search = *turn.state.search;
  search.since = turn.now;
  search.spacing = spacing;
  search.campaigned = false;
  search.called.clear();
  search.again.clear();
  auto const order = turns(turn.state);
  auto const own = std::find_if(order.begin(), order.end(),
                                [&](SearchTurn const& entry) { return is_own(turn.state, *entry.successor); });
  search.until = turn.now + patience(turn.policy) * 2 + spacing * (own - order.begin());
  tell_again(turn);
  take_turns(turn);
}

/// Whether the candidate that has our promise is connected and answers; then this agent does not campaign.
bool is_in_good_hands(State const& state, TimePoint now, Policy const& policy) {
  Link const* const link = find(state, state.favoured);
  return link != nullptr && !link->own &&
         (policy.lease.timeout <= Millis{0} || (link->heard && now < *link->heard + policy.lease.timeout));
}

/// Whether this is a spare, which has no vote, with a link to an agent that may come to lead.
bool can_only_wait(State const& state) {
  return !state.decided.rank && std::any_of(state.links.begin(), state.links.end(), [&](auto const& entry) {
    Link const& link = entry.second;
    return link.up && !link.own &&
           find_successor(state, [&](Successor const& each) { return where(each) == where(link.to); }) != nullptr;
  });
}

void hang_up_all(Turn& turn) {
  for (auto const& [id, link] : turn.state.links) {
    if (!link.ended) {
      turn.act(HangUp{id});
    }
  }
  turn.state.links.clear();
  turn.state.main = 0;
  turn.state.favoured = 0;
  turn.state.next_beat.reset();
}

/// Where the coordinator that is being lost listens; "" = not known.
std::string where_leader(State const& state) {
  if (Link const* const main = find(state, state.main); main != nullptr && main->dialled) {
    return where(main->to);
  }
  auto const* const leader =
      find_successor(state, [&](Successor const& each) { return each.rank == state.decided.decree.coordinator; });
  return leader == nullptr ? "" : where(*leader);
}

}  // namespace

void search(Turn& turn, std::string how, Ended ended) {
  State& state = turn.state;
  // Members notice a silence up to one beat apart. One beat more between turns lets an earlier successor notice first.
  bool const silent = is_silent(state, turn.now, turn.policy);
  Search search;
  search.how = std::move(how);
  search.lost = where_leader(state);
  // If this agent led itself, its coordinator may still be a candidate, until this agent promises to another one.
  Link const* const main = find(state, state.main);
  search.campaigning = main != nullptr && main->own;
  if (ended == Ended::in_order && (main == nullptr || !main->relayed)) {
    suspect(turn, search.lost);
  }
  hang_up_all(turn);
  state.search = std::move(search);
  begin_round(turn, turn.policy.spacing + (silent ? turn.policy.lease.beat : Millis{0}));
  Millis const round = patience(turn.policy) * 2 + turn.policy.spacing * state.decided.successors.size();
  state.search->over = state.search->until + round * (turn.policy.tries - 1);
}

void search_in(Turn& turn, LinkId leader) {
  State& state = turn.state;
  Search& search = *state.search;
  if (!state.decided.rank) {
    if (std::exchange(search.campaigning, false)) {
      turn.act(Withdraw{"this agent is no member of generation " + std::to_string(state.decided.decree.number)});
    }
    if (leader != 0) {
      follow(turn, leader);
      return;
    }
    begin_round(turn, turn.policy.spacing);  // the news came from a candidate; the elected coordinator will call
    return;
  }
  auto const* const own = own_successor(state);
  for (auto& [id, link] : state.links) {
    link.own = own != nullptr && where(*own) == where(link.to);
  }
  bool const campaigned = search.campaigning;
  begin_round(turn, turn.policy.spacing);
  if (campaigned && !search.campaigned &&
      own != nullptr) {  // our campaign brought the decision about: continue at once
    start_campaign(turn, *own);
  }
}

void link_down(Turn& turn, LinkId id) {
  State& state = turn.state;
  if (recall_failed(turn, id, false)) {
    return;
  }
  auto const gone = state.links.extract(id);
  if (gone.empty()) {
    return;
  }
  Link const& link = gone.mapped();
  bool const was_favoured = std::exchange(state.favoured, state.favoured == id ? 0 : state.favoured) == id;
  if (!state.search) {
    return;
  }
  if (!link.own) {
    state.search->dead.insert(where(link.to));
    call_later(turn, link.to, pause_after_refusal(turn.policy));
  } else if (state.search->campaigning) {  // the link was of our last campaign; this is the next one
    dial(turn, link.to);
  }
  if (was_favoured && !link.own) {  // the candidate is gone: restart the turns, within the same round
    state.search->since = turn.now;
    state.search->campaigned = false;
  }
  take_turns(turn);
}

void link_failed(Turn& turn, LinkId id, bool refused) {
  State& state = turn.state;
  if (recall_failed(turn, id, refused)) {
    return;
  }
  if (Link const* const link = find(state, id); link != nullptr && link->up) {
    link_down(turn, id);
    return;
  }
  auto const gone = state.links.extract(id);
  if (gone.empty()) {
    return;
  }
  Link const& link = gone.mapped();
  called_suspect(turn, link.to, refused);
  if (!state.search) {
    return;
  }
  if (!link.own) {  // only a refusal proves that nothing listens there
    if (refused) {
      state.search->dead.insert(where(link.to));
    }
    call_later(turn, link.to, refused ? pause_after_refusal(turn.policy) : turn.policy.spacing);
  }
  take_turns(turn);
}

void stepped_down(Turn& turn) {
  if (turn.state.search) {
    turn.state.search->campaigning = false;
  }
}

void abandon(Turn& turn, std::string const& why) {
  if (turn.state.search && turn.state.search->campaigning) {
    turn.act(Withdraw{why});
  }
  turn.state.search.reset();
  turn.state.recall.reset();
  turn.state.suspects.clear();
  hang_up_all(turn);
}

bool search_on(Turn& turn) {
  State& state = turn.state;
  if (!state.search) {
    call_suspects(turn);
    call_again(turn);
    return true;
  }
  Search& search = *state.search;
  if (state.decided.rank && turn.now >= search.over) {
    return false;
  }
  take_turns(turn);
  if (turn.now < search.until) {
    return true;
  }
  if (is_in_good_hands(state, turn.now, turn.policy)) {
    search.until = turn.now + patience(turn.policy) * 2;
    return true;
  }
  // The agent that a spare waits for may itself only wait, so the spare's rounds are limited, too.
  if (++search.tries >= turn.policy.tries * (can_only_wait(state) ? kPatientRounds : 1)) {
    return false;
  }
  turn.say(Level::info, "no coordinator yet: next round");
  state.favoured = 0;
  search.dead.clear();
  begin_round(turn, turn.policy.spacing);
  return true;
}

std::optional<TimePoint> search_due(State const& state) {
  if (!state.search) {
    std::optional<TimePoint> next;
    if (state.recall) {
      next = state.recall->link == 0 ? std::min(state.recall->again, state.recall->until) : state.recall->until;
    }
    for (auto const& [rank, suspect] : state.suspects) {
      if (asks_after_suspects(state) && !is_called(state, suspect.at)) {
        next = earliest({next, suspect.again});
      }
    }
    return next;
  }
  TimePoint least = state.decided.rank ? std::min(state.search->until, state.search->over) : state.search->until;
  for (auto const& [successor, at] : turns(state)) {
    bool const done =
        is_own(state, *successor) ? state.search->campaigned : state.search->called.contains(where(*successor));
    if (!done) {
      least = std::min(least, at);
    }
  }
  return least;
}

}  // namespace cxxrun::rendezvous::follower
