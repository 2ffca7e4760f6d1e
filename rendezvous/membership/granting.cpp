#include "rendezvous/membership/granting.hpp"

#include <algorithm>
#include <chrono>

#include "rendezvous/membership/books.hpp"
#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

bool workers_may_run(Phase phase) {
  return phase == Phase::running || phase == Phase::stopping;
}

bool has_store(Phase phase) {
  return phase == Phase::opening || phase == Phase::preparing || phase == Phase::proposing ||
         phase == Phase::lease_wait || workers_may_run(phase);
}

std::optional<TimePoint> authority(Turn& turn, Count count) {
  Leadership& leadership = turn.state.leadership;
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  constexpr std::uint32_t kFew = 64;
  bool const recent = leadership.counted_at && turn.now - *leadership.counted_at < terms.beat / 8;
  if (count == Count::exactly || leadership.decided.size <= kFew || !recent) {
    leadership.until = authority_until(leadership.authority, leadership.decided, terms);
    leadership.counted_at = turn.now;
  }
  return leadership.until;
}

/// It is a member of the generation that votes on the next one, and could vote for another coordinator.
bool has_vote(Leadership const& leadership, FollowerInfo const& follower_info) {
  return (follower_info.rank && follower_info.decided.number == leadership.decided.number) ||
         (follower_info.prepared_rank && follower_info.prepared == leadership.decided.number);
}

}  // namespace

bool can_decide_without(State const& state, std::string const& incarnation) {
  Leadership const& leadership = state.leadership;
  std::set<std::uint32_t> ranks = leadership.accepted;
  for (auto const& [agent, rank] : leadership.voters) {
    auto const here = state.present.find(agent);
    auto const follower_info = state.followers.find(agent);
    bool const same = (here != state.present.end() && here->second.incarnation == incarnation) ||
                      (follower_info != state.followers.end() && follower_info->second.node.incarnation == incarnation);
    if (!same) {
      ranks.insert(ranks.end(), rank);  // as a rule in their order
    }
  }
  return leadership.pair || majority(leadership.decided, ranks) != Majority::no;
}

std::string needed(Turn& turn, FollowerInfo const& follower_info) {
  State const& state = turn.state;
  Leadership const& leadership = state.leadership;
  bool const told_to_end = state.phase == Phase::stopping && state.stop.kind == StopKind::user;  // nothing to decide
  if (!rivalled(state, turn.policy) || told_to_end || !has_vote(leadership, follower_info)) {
    return "";
  }
  if (state.phase == Phase::running && left(turn, Count::exactly) <= Millis{0}) {
    return follower_info.node.host + " has lost us, and the others may have";
  }
  auto const others = std::count_if(state.present.begin(), state.present.end(), [&](auto const& entry) {
    return entry.second.incarnation != follower_info.node.incarnation;
  });
  if (static_cast<std::size_t>(others) < turn.policy.min_nodes) {  // it has promised, and would not come as a stranger
    return "too few nodes would be left without " + follower_info.node.host;
  }
  return can_decide_without(state, follower_info.node.incarnation)
             ? ""
             : "too few members of generation " + std::to_string(leadership.decided.number) +
                   " would be left without " + follower_info.node.host;
}

OwnTime own_time(TimePoint now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
}

void note_echo(Turn& turn, AgentId agent, OwnTime echo, OwnTime sent) {
  Leadership& leadership = turn.state.leadership;
  Pulse& pulse = leadership.pulses[agent];
  pulse.sent = std::max(pulse.sent, sent);
  TimePoint const at{std::chrono::microseconds{echo}};
  if (echo <= 0 || at > turn.now || (pulse.echo && at <= *pulse.echo)) {
    return;  // none; or a time that is still to come, which nobody can have had from us
  }
  pulse.echo = at;
  if (auto const voter = leadership.voters.find(agent); voter != leadership.voters.end()) {
    leadership.authority = echoed(std::move(leadership.authority), voter->second, at);
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

void answer_beat(Turn& turn, AgentId agent, Beat const& beat) {
  State& state = turn.state;
  note_echo(turn, agent, beat.echo, beat.sent);
  BeatAck ack{beat.sent, own_time(turn.now), Millis{0}, 0};
  Seat const* const seat =
      workers_may_run(state.phase) && !state.leadership.taking_over() ? find_seat(state, agent) : nullptr;
  if (seat != nullptr && (seat->now == Seat::Now::running || seat->now == Seat::Now::succeeded)) {
    ack.number = state.number;
    ack.left = left(turn, Count::lazily);
    if (ack.left > Millis{0}) {
      state.leadership.granted[agent] = turn.now;
    }
  }
  turn.act(TellBeat{agent, ack});
}

void keep_lease_outstanding(Turn& turn, Seat const& seat) {
  Leadership& leadership = turn.state.leadership;
  if (!leases_on(turn.policy) || !workers_may_run(turn.state.phase) || leadership.taking_over() ||
      seat.now != Seat::Now::running) {
    return;
  }
  Held const held{turn.state.number, turn.state.seat_of.at(seat.agent)};
  auto const granted = leadership.granted.find(seat.agent);
  if (granted != leadership.granted.end() && !leadership.confirmed_dead.contains(held)) {
    leadership.outstanding_leases[held] = granted->second + lease_terms(turn.policy.heartbeat_timeout).fence;
  }
}

void count_afresh(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    AgentId const agent = state.seats[rank].agent;
    if (!state.present.contains(agent) && !state.draining.contains(agent)) {
      continue;
    }
    leadership.voters.emplace(agent, rank);
    if (auto const pulse = leadership.pulses.find(agent); pulse != leadership.pulses.end() && pulse->second.echo) {
      leadership.authority = echoed(std::move(leadership.authority), rank, *pulse->second.echo);
    }
  }
  leadership.check_at.reset();
  if (rivalled(state, turn.policy)) {
    leadership.check_at = turn.now + turn.policy.heartbeat_timeout;
  }
}

Next authority_tick(Turn& turn) {
  State& state = turn.state;
  Leadership& leadership = state.leadership;
  if (!leadership.check_at || *leadership.check_at > turn.now) {
    return stay;
  }
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  bool const late = turn.now - *leadership.check_at > terms.lease / 2;
  leadership.check_at.reset();
  if (!rivalled(state, turn.policy) || state.phase == Phase::finished || state.phase == Phase::deposed ||
      state.phase == Phase::electing || state.phase == Phase::standby) {
    return stay;
  }
  if (auto const until = authority(turn, Count::exactly); until && *until > turn.now) {
    leadership.check_at = *until;
    return stay;
  }
  // Without authority nothing is granted, and that is all: nobody is lost before its silence is judged. That comes
  // first.
  auto const patience = terms.silence() - terms.lease + terms.beat * 2;
  if (state.phase == Phase::running && leadership.until && turn.now < *leadership.until + patience) {
    leadership.check_at = *leadership.until + patience;
    return stay;
  }
  bool lost = !can_decide_without(state, "");
  if (state.phase == Phase::running) {
    // Late ourselves, we were suspended, and the others may have been: they get the time to speak, we grant nothing.
    lost = !late;
    if (late) {
      turn.say(Level::warn, "this process was suspended: waiting for the members of generation " +
                                std::to_string(leadership.decided.number));
    }
  } else if (state.phase == Phase::lease_wait) {
    lost = leadership.outstanding_leases.empty() && !late;
  } else if (state.phase == Phase::stopping) {
    lost = false;
  }
  if (lost) {
    return next::Deposed{"too few members of generation " + std::to_string(leadership.decided.number) + " are heard"};
  }
  leadership.check_at = turn.now + terms.timeout;
  return stay;
}

void step_down(Turn& turn, std::string const& why) {
  State& state = turn.state;
  bool const ours = !(state.leadership.taking_over() && (state.phase == Phase::stopping || state.leadership.adopted));
  if (ours && has_store(state.phase)) {
    turn.act(CloseStore{state.number});
  }
  std::set<AgentId> connected;
  for (auto const* const agents : {&state.present, &state.excluded}) {
    for (auto const& [agent, node] : *agents) {
      connected.insert(agent);
    }
  }
  for (auto const& [agent, follower_info] : state.followers) {
    connected.insert(agent);
  }
  for (auto const& [agent, final_message] : state.draining) {
    connected.insert(agent);
  }
  for (AgentId const agent : connected) {
    turn.act(HangUp{agent});
  }
  State over;
  over.number = state.number;
  over.restarts = state.restarts;
  over.leadership.decided = state.leadership.decided;
  over.campaign_id = state.campaign_id;
  state = std::move(over);
  turn.say(Level::warn, "stepped down: " + why);
  turn.act(SteppedDown{why, state.campaign_id});
  turn.act(Close{});
}

}  // namespace cxxrun::rendezvous
