#include "rendezvous/membership/leases.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "rendezvous/membership/roster.hpp"

namespace cxxrun::rendezvous {
namespace {

bool has_store(Phase phase) {
  return phase == Phase::opening || phase == Phase::preparing || phase == Phase::proposing ||
         phase == Phase::lease_wait || workers_may_run(phase);
}

std::optional<TimePoint> authority(Turn& turn, Count count) {
  Proposer& proposer = turn.state.proposer;
  Leases& leases = turn.state.leases;
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  constexpr std::uint32_t kFew = 64;
  bool const recent = leases.counted_at && turn.now - *leases.counted_at < terms.beat / 8;
  if (count == Count::exactly || proposer.decided.size <= kFew || !recent) {
    leases.until = authority_until(leases.authority, proposer.decided, terms);
    leases.counted_at = turn.now;
  }
  return leases.until;
}

/// The follower is a member of the generation that votes, so it could vote for another coordinator.
bool has_vote(Decree const& decided, FollowerInfo const& follower_info) {
  return (follower_info.rank && follower_info.decided.number == decided.number) ||
         (follower_info.prepared_rank && follower_info.prepared == decided.number &&
          follower_info.prepared_members == decided.members);
}

}  // namespace

bool can_decide_without(State const& state, std::string const& incarnation) {
  Proposer const& proposer = state.proposer;
  std::set<std::uint32_t> ranks = proposer.accepted;
  for (auto const& [agent, rank] : state.election.voters) {
    auto const here = state.roster.present.find(agent);
    auto const follower_info = state.election.followers.find(agent);
    bool const same =
        (here != state.roster.present.end() && here->second.incarnation == incarnation) ||
        (follower_info != state.election.followers.end() && follower_info->second.node.incarnation == incarnation);
    if (!same) {
      ranks.insert(ranks.end(), rank);  // a hint: agents usually come in the order of ranks
    }
  }
  return proposer.right == Right::survivor || majority(proposer.decided, ranks) != Majority::no;
}

std::string needed(Turn& turn, FollowerInfo const& follower_info) {
  State const& state = turn.state;
  bool const told_to_end =
      state.phase == Phase::stopping && state.group.stop.kind == StopKind::user;  // nothing to decide
  if (!rivalled(state, turn.policy) || told_to_end || !has_vote(state.proposer.decided, follower_info)) {
    return "";
  }
  if (state.phase == Phase::running && left(turn, Count::exactly) <= Millis{0}) {
    return follower_info.node.host + " has lost us, and the others may have";
  }
  auto const others = std::count_if(state.roster.present.begin(), state.roster.present.end(), [&](auto const& entry) {
    return entry.second.incarnation != follower_info.node.incarnation;
  });
  // It has promised, so it would not join as a newcomer.
  if (static_cast<std::size_t>(others) < turn.policy.min_nodes) {
    return "too few nodes would be left without " + follower_info.node.host;
  }
  return can_decide_without(state, follower_info.node.incarnation)
             ? ""
             : "too few members of " + name_of(state.proposer.decided.number) + " would be left without " +
                   follower_info.node.host;
}

void note_echo(Turn& turn, AgentId agent, OwnTime echo, OwnTime sent) {
  Election& election = turn.state.election;
  Leases& leases = turn.state.leases;
  Pulse& pulse = leases.pulses[agent];
  pulse.sent = std::max(pulse.sent, sent);
  TimePoint const at = time_of(echo);
  if (echo <= 0 || at > turn.now || (pulse.echo && at <= *pulse.echo)) {
    return;  // none, no news, or a time in the future, which we cannot have sent
  }
  pulse.echo = at;
  if (auto const voter = election.voters.find(agent); voter != election.voters.end()) {
    echoed(leases.authority, voter->second, at);
  }
}

Millis left(Turn& turn, Count count) {
  if (!leases_on(turn.policy)) {
    return Millis{0};
  }
  if (!rivalled(turn.state, turn.policy)) {
    return lease_terms(turn.policy.heartbeat_timeout).lease;
  }
  auto const until = authority(turn, count);
  return until && *until > turn.now ? std::chrono::duration_cast<Millis>(*until - turn.now) : Millis{0};
}

void on_beat(Turn& turn, Beaten const& event) {
  State& state = turn.state;
  AgentId const agent = event.agent;
  Roster const& roster = state.roster;
  if (roster.present.contains(agent) || state.election.followers.contains(agent) || roster.excluded.contains(agent) ||
      roster.draining.contains(agent)) {
    heard(state.silence, agent, turn.now, {turn.policy.heartbeat_timeout});
  }
  note_echo(turn, agent, event.beat.echo, event.beat.sent);
  BeatAck ack{event.beat.sent, own_time(turn.now), Millis{0}, 0};
  Seat const* const seat =
      workers_may_run(state.phase) && !state.proposer.taking_over() ? find_seat(state, agent) : nullptr;
  if (seat != nullptr && (seat->now == Seat::Now::running || seat->now == Seat::Now::succeeded)) {
    ack.number = state.number;
    ack.left = left(turn, Count::lazily);
    if (ack.left > Millis{0}) {
      state.leases.granted[agent] = turn.now;
    }
  }
  turn.act(TellBeat{agent, ack});
}

Next handle(Turn& turn, BeatsEnded const& event) {
  State& state = turn.state;
  if (state.silence.heard.contains(event.agent)) {
    heard(state.silence, event.agent, turn.now, {turn.policy.heartbeat_timeout});
  }
  return stay;
}

Silent silence_tick(Turn& turn) {
  State& state = turn.state;
  if (!is_due(state.silence.due, turn.now)) {
    return {};
  }
  SilenceTick looked = tick(state.silence, turn.now, {turn.policy.heartbeat_timeout});
  if (looked.stalled) {
    turn.say(Level::warn, "this process was suspended: ignoring missed heartbeats");
  }
  if (!looked.lost.empty() && state.phase == Phase::running && rivalled(state, turn.policy) &&
      left(turn, Count::exactly) <= Millis{0}) {  // the others may elect a coordinator
    return {next::Deposed{"too few members of " + name_of(state.proposer.decided.number) + " are heard"}, {}};
  }
  return {stay, std::move(looked.lost)};
}

void keep_lease_outstanding(Turn& turn, Seat const& seat) {
  Leases& leases = turn.state.leases;
  if (!leases_on(turn.policy) || !workers_may_run(turn.state.phase) || turn.state.proposer.taking_over() ||
      seat.now != Seat::Now::running) {
    return;
  }
  Held const held{turn.state.number, turn.state.group.seat_of.at(seat.agent)};
  auto const granted = leases.granted.find(seat.agent);
  if (granted == leases.granted.end()) {
    return;
  }
  TimePoint const ends = granted->second + lease_terms(turn.policy.heartbeat_timeout).fence;
  auto const dead = turn.state.election.dead.find(held);
  leases.outstanding[held] = dead == turn.state.election.dead.end() ? ends : std::min(ends, dead->second);
}

void count_afresh(Turn& turn) {
  State& state = turn.state;
  Leases& leases = state.leases;
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    AgentId const agent = state.group.seats[rank].agent;
    if (!state.roster.present.contains(agent) && !state.roster.draining.contains(agent)) {
      continue;
    }
    state.election.voters.emplace(agent, rank);
    if (auto const pulse = leases.pulses.find(agent); pulse != leases.pulses.end() && pulse->second.echo) {
      echoed(leases.authority, rank, *pulse->second.echo);
    }
  }
  leases.check_at.reset();
  if (rivalled(state, turn.policy)) {
    leases.check_at = turn.now + turn.policy.heartbeat_timeout;
  }
}

Next authority_tick(Turn& turn) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Leases& leases = state.leases;
  if (!leases.check_at || *leases.check_at > turn.now) {
    return stay;
  }
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  bool const late = turn.now - *leases.check_at > terms.lease / 2;
  leases.check_at.reset();
  if (!rivalled(state, turn.policy) || state.phase == Phase::finished || state.phase == Phase::deposed ||
      state.phase == Phase::electing || state.phase == Phase::standby) {
    return stay;
  }
  if (auto const until = authority(turn, Count::exactly); until && *until > turn.now) {
    leases.check_at = *until;
    return stay;
  }
  // Without authority no lease is granted; that is enough for a while. Silent members are judged first.
  auto const patience = terms.silence() - terms.lease + terms.beat * 2;
  if (state.phase == Phase::running && leases.until && turn.now < *leases.until + patience) {
    leases.check_at = *leases.until + patience;
    return stay;
  }
  bool lost = !can_decide_without(state, "");
  if (state.phase == Phase::running) {
    // This tick is late, so this process was suspended, and the others perhaps as well. They get time to send beats;
    // until then no lease is granted.
    lost = !late;
    if (late) {
      turn.say(Level::warn,
               "this process was suspended: waiting for the members of " + name_of(proposer.decided.number));
    }
  } else if (state.phase == Phase::lease_wait) {
    lost = leases.outstanding.empty() && !late;
  } else if (state.phase == Phase::stopping) {
    lost = false;
  }
  if (lost) {
    return next::Deposed{"too few members of " + name_of(proposer.decided.number) + " are heard"};
  }
  leases.check_at = turn.now + terms.timeout;
  return stay;
}

Next begin(Turn& turn, next::Deposed const& what) {
  State& state = turn.state;
  bool const ours = !(state.proposer.taking_over() && (state.phase == Phase::stopping || state.proposer.adopted()));
  if (ours && has_store(state.phase)) {
    turn.act(CloseStore{state.number});
  }
  std::set<AgentId> connected;
  auto const add = [&](auto const& agents) {
    std::transform(agents.begin(), agents.end(), std::inserter(connected, connected.end()),
                   [](auto const& entry) { return entry.first; });
  };
  add(state.roster.present);
  add(state.roster.excluded);
  add(state.roster.draining);
  add(state.election.followers);
  for (AgentId const agent : connected) {
    turn.act(HangUp{agent});
  }
  State over;
  over.phase = Phase::deposed;
  over.number = state.number;
  over.restarts.consumed = state.restarts.consumed;
  over.proposer.decided = state.proposer.decided;
  over.election.campaign_id = state.election.campaign_id;
  state = std::move(over);
  turn.tell(story::SteppedDown{what.why});
  turn.say(Level::warn, "stepped down: " + what.why);
  turn.act(SteppedDown{what.why, state.election.campaign_id});
  turn.act(Close{});
  return stay;
}

}  // namespace cxxrun::rendezvous
