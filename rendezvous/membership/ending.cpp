#include "rendezvous/membership/ending.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "rendezvous/history/restarts.hpp"
#include "rendezvous/membership/cause.hpp"
#include "rendezvous/membership/excluding.hpp"
#include "rendezvous/membership/leases.hpp"
#include "rendezvous/membership/roster.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// After a takeover, members may notice the loss late. Those that are not proven dead keep their seats for a moment;
/// the lost coordinator does not. Sets the timer for that.
bool waits_for_late(Turn& turn) {
  State& state = turn.state;
  Decree const& decided = state.proposer.decided;
  auto const& missing = state.election.missing;
  auto const& until = state.election.seats_kept_until;
  bool const some_late = std::any_of(missing.begin(), missing.end(), [&](std::uint32_t rank) {
    return rank != decided.coordinator && !state.election.dead.contains(Held{decided.number, rank});
  });
  state.timers.late = some_late && until && turn.now < *until ? until : std::nullopt;
  return state.timers.late.has_value();
}

/// Whether nodes of the step may still come: without an answer they would look for this coordinator for join_timeout.
/// Not after a signal, because that went to every node.
bool others_will_come(State const& state, Policy const& policy) {
  End const end = state.verdict->end;
  return state.election.succession != Succession::happened && policy.expected_nodes &&
         state.roster.came.size() < *policy.expected_nodes && !policy.ends_when_empty && end != End::stopped &&
         (end != End::too_few_nodes || state.roster.refused);
}

/// After a takeover: records members that were lost with the coordinator, or to one that led for a moment before. If
/// the generation never ran, nothing else records them.
void tell_who_did_not_call(Turn& turn) {
  State const& state = turn.state;
  for (std::uint32_t const rank : state.election.missing) {
    std::string const host = host_at(state, rank);
    bool const is_back = std::any_of(state.roster.present.begin(), state.roster.present.end(),
                                     [&](auto const& entry) { return entry.second.host == host; });
    if (rank != state.proposer.decided.coordinator && !is_back) {
      turn.tell(story::NodeLost{host, "has not called"});
    }
  }
}

/// Records how far the program came in this generation: whether it was executed, and whether it lacked nothing.
void note_how_far(State& state) {
  auto const failures = failures_of(state.group);
  auto const started = [](Seat const& seat) {
    return std::any_of(seat.exits.begin(), seat.exits.end(),
                       [](auto const& exit) { return exit.status.kind != ExitStatus::Kind::not_started; });
  };
  Restarts& restarts = state.restarts;
  restarts.executed = restarts.executed || state.group.lived ||
                      std::any_of(state.group.seats.begin(), state.group.seats.end(), started);
  bool const lacked_nothing = !failures.empty() && missing_dependency(failures.front().exit).empty();
  restarts.begun = restarts.begun || state.group.lived || lacked_nothing;
}

/// Records nodes that lack workers: the next generation does not wait for them if it has enough others. After a resize
/// it does wait, otherwise each node that is taken in might leave another one out.
void note_lacking(State& state) {
  if (state.group.stop.kind != StopKind::failure) {
    return;
  }
  for (std::uint32_t rank = 0; rank < state.group.seats.size(); ++rank) {
    Seat const& seat = state.group.seats[rank];
    if (seat.lacks && state.roster.present.contains(seat.agent)) {
      state.roster.left_out.emplace(seat.agent, Lacking{rank});
    }
  }
}

void restart(Turn& turn) {
  Restarts& restarts = turn.state.restarts;
  consume_restart(restarts, turn.now, turn.policy);
  Millis const delay = delay_after(restarts.streak, turn.policy);
  turn.state.timers.restart = turn.now + delay;
  turn.tell(story::Restart{restarts.consumed, delay});
  turn.say(Level::info, restart_text(restarts, turn.now, turn.policy) +
                            (delay > Millis{0} ? ", next try in " + seconds_text(delay) : ""));
}

/// Closes the account of the generation whose workers have ended, if any have run.
void end_generation(Turn& turn, bool failed, std::string const& why) {
  State& state = turn.state;
  if (!state.ledger.running) {
    return;
  }
  PastGeneration past;
  past.number = state.number;
  past.nodes = static_cast<std::uint32_t>(state.group.seats.size());
  past.ranks = state.ledger.history.ranks;
  past.failed = failed;
  past.why = why;
  auto const booked = close_generation(state.ledger, std::move(past), turn.now);
  turn.tell(story::Ended{state.ledger.history.past.back()});
  turn.tell(booked);
}

}  // namespace

Next handle(Turn& turn, Seat& seat, Stopped const& message) {
  if (turn.state.phase != Phase::stopping || seat.now == Seat::Now::stopped) {
    return stay;
  }
  turn.state.leases.outstanding.erase(Held{message.number, turn.state.group.seat_of.at(seat.agent)});
  seat.now = Seat::Now::stopped;
  seat.exits = message.exits;
  seat.unkillable = message.unkillable;
  seat.lacks = message.lacks;
  turn.state.group.lived = turn.state.group.lived || message.steps.first;
  note_steps(turn.state.ledger, message.steps, turn.now);
  return answered(turn);
}

Next begin(Turn& turn, next::Stopping const& what) {
  State& state = turn.state;
  auto const& began = state.group.began;
  state.group.stop = what.reason;
  stop_generation(state.ledger, turn.now);
  turn.tell(story::Stopping{state.number, name_of(what.reason.kind), what.reason.why});
  state.group.lived = began && turn.now - *began >= turn.policy.long_enough;
  state.timers.scale_out.reset();
  state.group.awaited = 0;
  for (auto const& seat : state.group.seats) {
    if (!state.roster.present.contains(seat.agent) || seat.now == Seat::Now::stopped) {
      continue;
    }
    ++state.group.awaited;
    if (!seat.drained.empty()) {
      turn.act(Tell{seat.agent, Stop{state.number, StopKind::drain, seat.drained}});
    } else if (seat.leaving == 0) {
      turn.act(Tell{seat.agent, Stop{state.number, state.group.stop.kind, state.group.stop.why}});
    }
  }
  state.timers.answer = turn.now + turn.policy.stop_timeout;
  turn.say(state.group.stop.level, state.group.stop.why);
  return consider_stopped(turn);
}

Next begin(Turn& turn, next::StoppingLate const& what) {
  State& state = turn.state;
  if (state.phase == Phase::forming) {  // stops forming until its workers have stopped
    state.group.awaited = 0;
    state.timers.window.reset();
    state.timers.answer = turn.now + turn.policy.stop_timeout;
  }
  ++state.group.awaited;
  turn.act(Tell{what.agent, Stop{state.number, state.group.stop.kind, state.group.stop.why}});
  state.phase = Phase::stopping;
  return stay;
}

Next answered(Turn& turn) {
  --turn.state.group.awaited;
  return consider_stopped(turn);
}

Next consider_stopped(Turn& turn) {
  bool const late = waits_for_late(turn);
  return turn.state.group.awaited == 0 && !late ? Next{next::Stopped{}} : Next{stay};
}

Next drop_silent(Turn& turn) {
  State& state = turn.state;
  Phase const phase = state.phase;
  for (auto& seat : state.group.seats) {
    bool const waits = phase == Phase::preparing ? seat.now == Seat::Now::invited : seat.now != Seat::Now::stopped;
    if (waits && state.roster.present.contains(seat.agent)) {
      turn.tell(story::NodeLost{seat.node.host, "no answer"});
      turn.say(Level::warn, "no answer from " + seat.node.host);
      turn.act(HangUp{seat.agent});
      drop(state, seat.agent);
      count_loss(state, seat.node, false);
      keep_lease_outstanding(turn, seat);
      seat.now = Seat::Now::lost;
      --state.group.awaited;
    }
  }
  return phase == Phase::preparing ? Next{next::FormingAgain{}} : Next{next::Stopped{}};
}

Next begin(Turn& turn, next::Stopped const& /*what*/) {
  State& state = turn.state;
  if (!state.proposer.taking_over()) {
    turn.act(CloseStore{state.number});
  }
  for (auto& seat : state.group.seats) {
    if (seat.leaving != 0 && state.roster.present.contains(seat.agent)) {
      drain(turn, seat.agent, Finished{128 + seat.leaving, ""});
    } else if (!seat.unkillable.empty()) {
      state.roster.unkillable_on = seat.node.host + ": " + seat.unkillable.front();
      state.roster.unfit.emplace(node_key(seat.node), state.roster.unkillable_on);
      mark_dead(state, seat.node);
      note_fault(state.roster.fitness, {seat.node.host, seat.unkillable.front(), 0, node_key(seat.node)});
      drain(turn, seat.agent, Refused{kExitUnkillable, "excluded: " + seat.unkillable.front()});
    } else if (!seat.drained.empty() && state.roster.present.contains(seat.agent)) {
      exclude(turn, seat.agent, seat.drained);
    }
  }
  tell_who_did_not_call(turn);
  Ruling ruling = rule(state, turn.policy, turn.now);
  if (!ruling.line.empty() && ruling.line != state.group.stop.why) {
    turn.say(ruling.worker_failed() ? Level::error : Level::warn, "cause: " + ruling.line);
  }
  if (ruling.worker_failed()) {
    judge_nodes(turn, failures_of(state.group).front(), ruling.next == Ruling::Next::restart);
  }
  for (auto const& [rank, why] : ruling.unfit) {
    NodeInfo const& node = state.group.seats[rank].node;
    exclude(turn, state.group.seats[rank].agent, why);
    note_fault(state.roster.fitness, {node.host, why, 0, node_key(node)});
  }
  end_generation(turn, state.group.stop.kind == StopKind::failure,
                 ruling.line.empty() ? state.group.stop.why : ruling.line);
  if (ruling.next == Ruling::Next::conclude) {
    Verdict& ruled = ruling.verdict;  // made again: judge_nodes() and exclude() have changed what it reports
    return next::Finished{make_verdict(state, turn.policy, ruled.end, ruled.exit_code, std::move(ruled.summary))};
  }
  note_how_far(state);
  note_lacking(state);
  state.restarts.streak = ruling.streak;
  if (ruling.next == Ruling::Next::restart) {
    restart(turn);
  }
  return next::Forming{};
}

TimePoint sees_off_until(Turn const& turn) {
  Millis const unheard = turn.state.group.unaware.empty() ? Millis{0} : turn.policy.heartbeat_timeout * 3 / 2;
  return turn.now + std::max(turn.policy.linger, unheard);
}

Next begin(Turn& turn, next::Finished const& what) {
  State& state = turn.state;
  assert(!state.verdict);
  Verdict verdict = what.verdict;
  end_generation(turn, false, verdict.summary);
  turn.tell(state.group.stop.kind == StopKind::user ? book(state.ledger, turn.now, Spent::stopping)
                                                    : book_wait(state.ledger, turn.now));
  verdict.history = state.ledger.history;
  turn.tell(story::Concluded{name_of(verdict.end), verdict.exit_code, verdict.summary});
  state.timers.answer = sees_off_until(turn);
  for (auto const& [agent, follower_info] : std::exchange(state.election.followers, {})) {
    state.roster.excluded.emplace(agent, follower_info.node);
  }
  state.election.voters.clear();  // nothing is decided any more
  dismiss(turn);
  // One agent shows the verdict: the coordinator's own in its report, else the first one that is told here.
  bool const by_agent = turn.policy.ends_when_empty && verdict.end != End::success;
  bool const failed = verdict.end == End::worker_failed || verdict.end == End::failed_alike;
  std::optional<std::uint32_t> first;
  if (failed && !verdict.failures.empty()) {
    first = verdict.failures.front().exit.rank;
  }
  std::string const text = std::string(name_of(verdict.end)) + ": " + verdict.summary;
  std::string line = by_agent ? text : "";
  // Then each node ends before it began, and reports why.
  bool const refused = state.roster.refused && verdict.end == End::too_few_nodes;
  for (auto const* const agents : {&state.roster.present, &state.roster.excluded}) {
    for (auto const& [agent, node] : *agents) {
      std::string const said = std::exchange(line, "");
      turn.act(Tell{agent, Finished{verdict.exit_code, refused && !node.coordinates ? text : said, first}});
    }
  }
  turn.say(Level::info, std::string("verdict: ") + name_of(verdict.end) + " after " +
                            elapsed_text(verdict.history.account.total()) +
                            (verdict.end == End::success && !verdict.lost_nodes.empty()
                                 ? "; lost on the way: " + join(verdict.lost_nodes, ", ")
                                 : ""));
  turn.act(Conclude{verdict});
  state.verdict = verdict;
  close_if_alone(turn);
  return stay;
}

void close(Turn& turn) {
  if (!std::exchange(turn.state.closed, true)) {
    turn.act(Close{});
  }
}

void close_if_alone(Turn& turn) {
  State const& state = turn.state;
  if (state.roster.present.empty() && state.roster.excluded.empty() && state.group.unaware.empty() &&
      !others_will_come(state, turn.policy)) {
    close(turn);
  }
}

}  // namespace cxxrun::rendezvous
