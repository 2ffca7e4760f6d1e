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
  return phase == Phase::opening || phase == Phase::preparing || phase == Phase::proposing || phase == Phase::gated ||
         workers_may_run(phase);
}

std::optional<TimePoint> authority(Turn& turn, Count count) {
  Mandate& mandate = turn.state.mandate;
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  constexpr std::uint32_t kFew = 64;
  bool const recent = mandate.counted_at && turn.now - *mandate.counted_at < terms.beat / 8;
  if (count == Count::exactly || mandate.decided.size <= kFew || !recent) {
    mandate.until = authority_until(mandate.authority, mandate.decided, terms);
    mandate.counted_at = turn.now;
  }
  return mandate.until;
}

/// It is a member of the generation that votes on the next one, and could vote for another coordinator.
bool has_vote(Mandate const& mandate, Elector const& elector) {
  return (elector.rank && elector.decided.number == mandate.decided.number) ||
         (elector.prepared_rank && elector.prepared == mandate.decided.number);
}

}  // namespace

bool can_decide_without(State const& state, std::string const& incarnation) {
  Mandate const& mandate = state.mandate;
  std::set<std::uint32_t> ranks = mandate.accepted;
  for (auto const& [agent, rank] : mandate.voters) {
    auto const here = state.present.find(agent);
    auto const elector = state.electors.find(agent);
    bool const same = (here != state.present.end() && here->second.incarnation == incarnation) ||
                      (elector != state.electors.end() && elector->second.node.incarnation == incarnation);
    if (!same) {
      ranks.insert(ranks.end(), rank);  // as a rule in their order
    }
  }
  return mandate.pair || majority(mandate.decided, ranks) != Majority::no;
}

std::string needed(Turn& turn, Elector const& elector) {
  State const& state = turn.state;
  Mandate const& mandate = state.mandate;
  bool const told_to_end = state.phase == Phase::stopping && state.stop.kind == StopKind::user;  // nothing to decide
  if (!rivalled(state, turn.policy) || told_to_end || !has_vote(mandate, elector)) {
    return "";
  }
  if (state.phase == Phase::running && left(turn, Count::exactly) <= Millis{0}) {
    return elector.node.host + " has lost us, and the others may have";
  }
  auto const others = std::count_if(state.present.begin(), state.present.end(), [&](auto const& entry) {
    return entry.second.incarnation != elector.node.incarnation;
  });
  if (static_cast<std::size_t>(others) < turn.policy.min_nodes) {  // it has promised, and would not come as a stranger
    return "too few nodes would be left without " + elector.node.host;
  }
  return can_decide_without(state, elector.node.incarnation)
             ? ""
             : "too few members of generation " + std::to_string(mandate.decided.number) + " would be left without " +
                   elector.node.host;
}

OwnTime own_time(TimePoint now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
}

void note_echo(Turn& turn, AgentId agent, OwnTime echo, OwnTime sent) {
  Mandate& mandate = turn.state.mandate;
  Pulse& pulse = mandate.pulses[agent];
  pulse.sent = std::max(pulse.sent, sent);
  TimePoint const at{std::chrono::microseconds{echo}};
  if (echo <= 0 || at > turn.now || (pulse.echo && at <= *pulse.echo)) {
    return;  // none; or a time that is still to come, which nobody can have had from us
  }
  pulse.echo = at;
  if (auto const voter = mandate.voters.find(agent); voter != mandate.voters.end()) {
    mandate.authority = echoed(std::move(mandate.authority), voter->second, at);
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
      workers_may_run(state.phase) && !state.mandate.taking_over() ? find_seat(state, agent) : nullptr;
  if (seat != nullptr && (seat->now == Seat::Now::running || seat->now == Seat::Now::succeeded)) {
    ack.number = state.number;
    ack.left = left(turn, Count::lazily);
    if (ack.left > Millis{0}) {
      state.mandate.granted[agent] = turn.now;
    }
  }
  turn.act(TellBeat{agent, ack});
}

void leave_unproven(Turn& turn, Seat const& seat) {
  Mandate& mandate = turn.state.mandate;
  if (!leases_on(turn.policy) || !workers_may_run(turn.state.phase) || mandate.taking_over() ||
      seat.now != Seat::Now::running) {
    return;
  }
  Held const held{turn.state.number, turn.state.seat_of.at(seat.agent)};
  auto const granted = mandate.granted.find(seat.agent);
  if (granted != mandate.granted.end() && !mandate.buried.contains(held)) {
    mandate.unproven[held] = granted->second + lease_terms(turn.policy.heartbeat_timeout).fence;
  }
}

void count_afresh(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  for (std::uint32_t rank = 0; rank < state.seats.size(); ++rank) {
    AgentId const agent = state.seats[rank].agent;
    if (!state.present.contains(agent) && !state.parting.contains(agent)) {
      continue;
    }
    mandate.voters.emplace(agent, rank);
    if (auto const pulse = mandate.pulses.find(agent); pulse != mandate.pulses.end() && pulse->second.echo) {
      mandate.authority = echoed(std::move(mandate.authority), rank, *pulse->second.echo);
    }
  }
  mandate.check_at.reset();
  if (rivalled(state, turn.policy)) {
    mandate.check_at = turn.now + turn.policy.heartbeat_timeout;
  }
}

Next authority_tick(Turn& turn) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  if (!mandate.check_at || *mandate.check_at > turn.now) {
    return stay;
  }
  auto const terms = lease_terms(turn.policy.heartbeat_timeout);
  bool const late = turn.now - *mandate.check_at > terms.lease / 2;
  mandate.check_at.reset();
  if (!rivalled(state, turn.policy) || state.phase == Phase::finished || state.phase == Phase::deposed ||
      state.phase == Phase::electing || state.phase == Phase::standby) {
    return stay;
  }
  if (auto const until = authority(turn, Count::exactly); until && *until > turn.now) {
    mandate.check_at = *until;
    return stay;
  }
  // Without authority nothing is granted, and that is all: nobody is lost before its silence is judged. That comes
  // first.
  auto const patience = terms.silence() - terms.lease + terms.beat * 2;
  if (state.phase == Phase::running && mandate.until && turn.now < *mandate.until + patience) {
    mandate.check_at = *mandate.until + patience;
    return stay;
  }
  bool lost = !can_decide_without(state, "");
  if (state.phase == Phase::running) {
    // Late ourselves, we were suspended, and the others may have been: they get the time to speak, we grant nothing.
    lost = !late;
    if (late) {
      turn.say(Level::warn, "this process was suspended: waiting for the members of generation " +
                                std::to_string(mandate.decided.number));
    }
  } else if (state.phase == Phase::gated) {
    lost = mandate.unproven.empty() && !late;
  } else if (state.phase == Phase::stopping) {
    lost = false;
  }
  if (lost) {
    return next::Deposed{"too few members of generation " + std::to_string(mandate.decided.number) + " are heard"};
  }
  mandate.check_at = turn.now + terms.timeout;
  return stay;
}

void stand_down(Turn& turn, std::string const& why) {
  State& state = turn.state;
  bool const ours = !(state.mandate.taking_over() && (state.phase == Phase::stopping || state.mandate.adopted));
  if (ours && has_store(state.phase)) {
    turn.act(CloseStore{state.number});
  }
  std::set<AgentId> connected;
  for (auto const* const agents : {&state.present, &state.aside}) {
    for (auto const& [agent, node] : *agents) {
      connected.insert(agent);
    }
  }
  for (auto const& [agent, elector] : state.electors) {
    connected.insert(agent);
  }
  for (auto const& [agent, last_word] : state.parting) {
    connected.insert(agent);
  }
  for (AgentId const agent : connected) {
    turn.act(HangUp{agent});
  }
  State over;
  over.number = state.number;
  over.restarts = state.restarts;
  over.mandate.decided = state.mandate.decided;
  over.candidacy = state.candidacy;
  state = std::move(over);
  turn.say(Level::warn, "stood down: " + why);
  turn.act(StoodDown{why, state.candidacy});
  turn.act(Close{});
}

}  // namespace cxxrun::rendezvous
