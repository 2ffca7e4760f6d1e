#include <algorithm>

#include "launcher/life/agent_turn.hpp"

namespace cxxrun::launcher::agent {
namespace {

using rendezvous::Tie;

bool leases_on(Turn const& turn) {
  return turn.policy.lease.lease > Millis{0} && turn.policy.tie != Tie::none && turn.state.generation &&
         turn.state.generation->decree.tie != Tie::none;
}

/// The lease counts from our own send time, which the coordinator echoes, so that no delay on the way stretches it. An
/// echo from the future is not ours.
void extend(Turn& turn, rendezvous::OwnTime echo, Millis left) {
  TimePoint const sent = rendezvous::time_of(echo);
  if (left > Millis{0} && sent <= turn.now) {
    auto const until = rendezvous::lease_until(sent, left);
    turn.state.lease = turn.state.lease ? std::max(*turn.state.lease, until) : until;
  }
}

}  // namespace

void take_lease(Turn& turn, rendezvous::Start const& message) {
  State& state = turn.state;
  state.lease.reset();
  if (leases_on(turn)) {
    extend(turn, message.echo, message.left);
  }
  state.held = state.lease && *state.lease <= turn.now;
}

void renew_lease(Turn& turn, rendezvous::BeatAck const& ack) {
  State& state = turn.state;
  if (!(state.workers || state.held) || ack.number != number_of(state) || !leases_on(turn)) {
    return;
  }
  extend(turn, ack.echo, ack.left);
  if (!state.lease || *state.lease <= turn.now) {
    if (state.frozen && state.follower.next_beat) {  // the workers wait for the next answer: beat again soon
      state.follower.next_beat =
          std::min(*state.follower.next_beat, turn.now + turn.policy.lease.beat / rendezvous::follower::kProbesPerBeat);
    }
    return;
  }
  if (state.frozen) {
    state.frozen.reset();
    hold_lease(turn);  // before the thaw: the parent freezes or kills workers that run without a lease
    turn.act(Thaw{});
    turn.say(Level::info, "lease renewed: resuming workers");
  }
  if (state.held) {
    state.held = false;
    start_workers(turn);
  }
}

void kill_workers(Turn& turn, std::string const& why) {
  State& state = turn.state;
  state.killed = true;
  state.parks = false;
  state.frozen.reset();
  // An order of the same turn to end gracefully would wake frozen workers (SIGCONT), and they may not run.
  std::erase_if(turn.actions, [](Action const& one) { return std::holds_alternative<StopWorkers>(one); });
  state.owed_at.reset();
  if (state.life == Life::running) {
    state.life = Life::fenced;
  }
  turn.act(stop_order(turn, Millis{0}, SIGKILL));
  turn.say(Level::warn, "killing workers: " + why);
}

void check_lease(Turn& turn) {
  State& state = turn.state;
  if (!state.workers || state.killed || !state.lease) {
    return;
  }
  if (state.frozen) {
    if (turn.late) {  // this process was suspended, too: no answer could come
      state.frozen = turn.now + turn.policy.lease.timeout;
    } else if (*state.frozen <= turn.now) {
      kill_workers(turn, "frozen, and the coordinator has not answered");
    }
    return;
  }
  if (turn.now < *state.lease) {
    return;
  }
  // Workers that are being stopped have no grace beyond the lease. During a search nothing can renew it: the next
  // coordinator leads the next generation.
  if ((state.life == Life::running || turn.late) && state.connected && !state.follower.search) {
    state.frozen = turn.now + turn.policy.lease.timeout;
    state.frozen_in = state.life;
    turn.act(Freeze{});
    turn.say(Level::warn, "the lease has run out: workers are frozen until the coordinator answers");
    return;
  }
  kill_workers(turn, "their lease has run out");
}

void hold_lease(Turn& turn) {
  State& state = turn.state;
  std::optional<TimePoint> const until = state.workers && !state.killed ? state.lease : std::nullopt;
  // The parent's deadline to freeze and kill must stand until killed workers are dead, and while workers are frozen.
  if (until != state.told && !(state.workers && state.killed)) {
    state.told = until;
    turn.act(HoldLease{until});
  }
}

void write_death_notice(Turn& turn) {
  State& state = turn.state;
  if (!leases_on(turn)) {
    return;
  }
  auto const& generation = *state.generation;
  WriteDeathNotice death_notice{rendezvous::Gone{generation.number, generation.group_rank}, {}};
  auto const is_coordinator = [&](auto const& entry) { return entry.rank == generation.decree.coordinator; };
  auto const& successors = generation.successors;
  if (generation.coordinator.empty() || std::ranges::none_of(successors, is_coordinator)) {
    death_notice.recipients.push_back(rendezvous::Successor{generation.decree.coordinator, "", "", 0});
  }
  death_notice.recipients.insert(death_notice.recipients.end(), successors.begin(), successors.end());
  std::ranges::stable_partition(death_notice.recipients,
                                [&](auto const& entry) { return entry.port == 0 || is_coordinator(entry); });
  state.death_notice = true;
  turn.act(std::move(death_notice));
}

void clear_death_notice(Turn& turn) {
  if (turn.state.death_notice) {
    turn.state.death_notice = false;
    turn.act(WriteDeathNotice{});
  }
}

std::optional<TimePoint> lease_due(State const& state) {
  if (!state.workers || state.killed || !state.lease) {
    return std::nullopt;
  }
  return state.frozen ? state.frozen : state.lease;
}

}  // namespace cxxrun::launcher::agent
