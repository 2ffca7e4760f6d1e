#include <cassert>

#include "launcher/life/agent_turn.hpp"
#include "rendezvous/values/verdict.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::agent {
namespace {

namespace follower = rendezvous::follower;
using rendezvous::Successor;

/// Rounds of election about one generation, for each try without a coordinator (Policy::tries).
constexpr std::uint32_t kMaxRoundsPerTry = 8;

/// The generation of a message about workers; 0: it is about any.
template <class Message>
std::uint64_t message_number(Message const& message) {
  if constexpr (std::is_same_v<Message, rendezvous::Prepare>) {
    return message.generation.number;
  } else if constexpr (std::is_same_v<Message, rendezvous::Start> || std::is_same_v<Message, rendezvous::Stop>) {
    return message.number;
  } else {
    return 0;
  }
}

/// ", NODE" of the lost coordinator, to end a line with; "" = not known, or it is cxxrun-rendezvous.
std::string first_node(follower::Known const& decided) {
  auto const hosts = expand_hostlist(decided.hosts);
  std::uint32_t const rank = decided.decree.coordinator;
  return decided.led && hosts && rank < hosts->size() ? ", " + (*hosts)[rank] : "";
}

/// Ends this agent: there is no coordinator, and none can be elected.
void give_up_search(Turn& turn) {
  State& state = turn.state;
  auto line = follower::partitioned_line(state.follower);
  turn.delegate([](auto& inner) { follower::abandon(inner, "no majority within reach"); });
  state.exit_code = kExitPartitioned;
  state.last_line = std::move(line);
  if (has_processes(state.life)) {
    turn.say(Level::warn, "stopping workers: " + state.last_line);
    stop_to_leave(turn, Millis{0}, SIGKILL);
    return;
  }
  leave(turn, state.exit_code, state.last_line);
}

/// Whether the link leads to the coordinator of the last generation that this agent knows. If that one is alive, it has
/// precedence over a candidate that was promised this agent's vote.
bool is_incumbent(follower::State const& state, follower::Link const& link) {
  return link.dialled && link.to.rank == state.decided.decree.coordinator;
}

/// Joins with a new incarnation as soon as no process runs. `to`: the coordinator; address "" = call as at the start.
void begin_anew(Turn& turn, Successor to, std::string const& why) {
  State& state = turn.state;
  state.rejoin = std::move(to);
  if (state.workers && !state.killed) {
    kill_workers(turn, why);
  } else if (state.life == Life::checking) {
    state.life = Life::stopping;
    turn.act(stop_order(turn, Millis{0}, SIGKILL));
  } else if (!has_processes(state.life) && state.parked) {
    state.life = Life::stopping;
    stop_waiting(turn);
  } else if (!has_processes(state.life)) {
    rejoin(turn);
  }
}

/// Whether this agent has to obey a Dropped. From a candidate only if no promise forbids it.
bool may_drop(follower::State const& state, follower::Link const& link, LinkId id, std::uint64_t number) {
  auto const& decided = state.decided.decree;
  return number > decided.number ||
         (number == decided.number && (is_incumbent(state, link) || follower::obeys(state, id)));
}

}  // namespace

void Turn::tell(rendezvous::ToCoordinator message) {
  if (state.connected) {
    act(TellLink{state.follower.main, std::move(message)});
  }
}

void lose_coordinator(Turn& turn, std::string const& how, rendezvous::Ended ended) {
  State& state = turn.state;
  state.connected = false;
  if (state.life == Life::leaving) {  // and keeps the exit code that it has
    turn.delegate([](auto& inner) { follower::abandon(inner, "this agent leaves"); });
    return;
  }
  if (state.life == Life::farewell) {
    leave(turn, state.exit_code, state.last_line);
    return;
  }
  // It was elected again and again, and could not decide: other nodes hold the fence.
  if (state.follower.round > turn.policy.tries * kMaxRoundsPerTry) {
    give_up_search(turn);
    return;
  }
  if (follower::can_search(state.follower)) {
    if (state.frozen) {
      kill_workers(turn, "frozen, and the coordinator is lost");
    }
    turn.delegate([&](auto& inner) { follower::search(inner, how, ended); });
    turn.say(Level::warn, "coordinator lost: " + how + "; looking for the next one");
    return;
  }
  if (may_look_again(turn)) {  // it may not know yet which agents can take over
    turn.delegate([](auto& inner) { follower::abandon(inner, "nobody can take over"); });
    turn.say(Level::warn, "coordinator lost: " + how + "; looking for the job again");
    look_again(turn, how);
    return;
  }
  turn.say(Level::warn, "coordinator lost: " + how + "; calling it again");
  turn.delegate([&](auto& inner) { follower::recall(inner, how); });
}

void give_up_recall(Turn& turn) {
  State& state = turn.state;
  if (!follower::is_lost_for_good(state.follower, turn.now)) {
    return;
  }
  std::string const how = state.follower.recall->how;
  turn.delegate([](auto& inner) { follower::abandon(inner, "nobody can take over"); });
  state.exit_code = kExitCoordinatorLost;
  state.last_line =
      "coordinator lost: " + how + "; the job cannot go on without its first node" + first_node(state.follower.decided);
  if (has_processes(state.life)) {
    stop_to_leave(turn, turn.policy.restart_timeout);
    turn.say(Level::warn, "stopping workers: " + state.last_line);
    return;
  }
  leave(turn, state.exit_code, state.last_line);
}

bool may_look_again(Turn const& turn) {
  Life const life = turn.state.life;
  bool const free = life == Life::waiting || life == Life::checking || life == Life::ready || life == Life::stopping;
  return turn.policy.added && free && turn.state.follower.decided.decree.number == 0;
}

void look_again(Turn& turn, std::string const& why) {
  turn.state.connected = false;
  turn.state.rejoin_why = why;
  begin_anew(turn, {}, why);
}

bool accept_lead(Turn& turn, LinkId link, rendezvous::ToAgent const& message) {
  auto& following = turn.state.follower;
  if (link == following.main) {
    return true;
  }
  std::uint64_t const known = following.decided.decree.number;
  bool const refused = std::holds_alternative<rendezvous::Refused>(message);
  bool const stale = std::visit(
      [&](auto const& concrete) {
        auto const number = message_number(concrete);
        return number != 0 && (std::holds_alternative<rendezvous::Stop>(message) ? number < known : number <= known);
      },
      message);
  auto const* const from = follower::find(following, link);
  bool const verdict =
      std::holds_alternative<rendezvous::Finished>(message) && from != nullptr && is_incumbent(following, *from);
  if (stale || refused || !(verdict || follower::obeys(following, link))) {
    turn.say(Level::debug, stale     ? "ignored: a coordinator of an older generation than " + std::to_string(known)
                           : refused ? "a successor refuses this agent: " + std::get<rendezvous::Refused>(message).why
                                     : "ignored: message of an agent that does not lead");
    if (refused && following.links.contains(link)) {
      turn.act(HangUp{link});
      turn.delegate([&](auto& inner) { follower::link_failed(inner, link, true); });
    }
    return false;
  }
  if (auto const it = following.links.find(link); it != following.links.end()) {
    turn.say(it->second.own ? Level::debug : Level::info, it->second.to.host + " coordinates now");
  }
  turn.delegate([&](auto& inner) { follower::follow(inner, link); });
  turn.state.connected = turn.state.joined = true;
  return true;
}

void on_decided(Turn& turn, LinkId link, rendezvous::Decided const& message) {
  State& state = turn.state;
  bool const had_seat = state.follower.decided.rank.has_value();
  if (!turn.delegate([&](auto& inner) { return follower::hear(inner, link, message); })) {
    return;
  }
  if (state.follower.main != 0) {
    state.connected = state.joined = true;
  }
  if (had_seat && state.workers && !state.killed && number_of(state) < message.decree.number) {
    kill_workers(turn, "generation " + std::to_string(message.decree.number) + " is decided");
  }
}

void on_dropped(Turn& turn, LinkId link, rendezvous::Dropped const& message) {
  State& state = turn.state;
  auto const it = state.follower.links.find(link);
  if (it == state.follower.links.end() || state.rejoin || !may_drop(state.follower, it->second, link, message.number)) {
    turn.say(Level::debug, "ignored: dropped from generation " + std::to_string(message.number));
    return;
  }
  Successor const to = it->second.dialled ? it->second.to : Successor{};
  turn.delegate([](auto& inner) { follower::abandon(inner, "dropped by the coordinator"); });
  state.connected = false;
  if (state.life == Life::leaving) {
    return;
  }
  if (state.life == Life::farewell) {
    leave(turn, state.exit_code, state.last_line);
    return;
  }
  turn.say(Level::warn, "dropped by the coordinator: " + message.why + "; joining again");
  begin_anew(turn, to, "dropped by the coordinator: " + message.why);
}

void rejoin(Turn& turn) {
  State& state = turn.state;
  assert(state.rejoin);
  Successor const to = *std::exchange(state.rejoin, std::nullopt);
  if (!state.unkillable.empty()) {  // that process is of a generation that this agent is no longer a member of
    leave(turn, kExitUnkillable,
          "dropped by the coordinator, and a process survived SIGKILL: " + state.unkillable.front());
    return;
  }
  clear_death_notice(turn);
  follower::State fresh;
  fresh.last_link = state.follower.last_link + 1;
  fresh.campaign_id = state.follower.campaign_id;
  fresh.main = fresh.last_link;
  fresh.links = {{fresh.main, follower::Link{}}};
  // As a stranger it has no vote, but it still knows who may take over if this coordinator is lost, too.
  fresh.seen = state.follower.seen;
  fresh.decided = std::move(state.follower.decided);
  if (fresh.decided.rank) {
    fresh.dead.emplace(*fresh.decided.rank, turn.now);  // its own seat: no worker of it runs, and it votes no more
  }
  fresh.decided.rank.reset();
  fresh.decided.pair = false;
  fresh.decided.hosts.clear();
  state.follower = std::move(fresh);
  state.generation.reset();
  state.exits.clear();
  state.unfit.clear();
  state.lease.reset();
  state.held = false;
  state.life = Life::waiting;
  state.joined = false;
  state.connected = true;
  bool const member = state.follower.decided.decree.number > 0 && !turn.policy.added;
  bool const once = member || follower::can_search(state.follower);
  turn.act(Rejoin{state.follower.main, to, once, std::exchange(state.rejoin_why, {})});
}

void on_following_tick(Turn& turn) {
  State& state = turn.state;
  turn.delegate([](auto& inner) { follower::send_beats(inner); });
  if (state.connected && follower::is_silent(state.follower, turn.now, turn.policy)) {
    lose_coordinator(turn, "silent for " + seconds_text(turn.policy.lease.timeout));
  }
  if (!turn.delegate([](auto& inner) { return follower::search_on(inner); })) {
    give_up_search(turn);
  }
  give_up_recall(turn);
}

}  // namespace cxxrun::launcher::agent
