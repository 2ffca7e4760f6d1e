#include "rendezvous/membership/callers.hpp"

#include <utility>

#include "rendezvous/membership/books.hpp"
#include "rendezvous/membership/electing.hpp"
#include "rendezvous/membership/granting.hpp"

namespace cxxrun::rendezvous {
namespace {

/// It waits here for an election that is over, and may not know anybody who leads: is told who may.
void redirect(Turn& turn, AgentId agent, FollowerInfo const& follower_info) {
  auto const& learned = turn.state.election.learned;
  if (learned && follower_info.decided.number < learned->decree.number) {
    turn.act(Tell{agent, Decided{learned->decree, learned->successors, false}});
  }
}

/// What it says of members that are dead, for who may take their coordinator's place. True: something new.
bool note_dead_seats(Turn& turn, FollowerInfo const& follower_info) {
  State& state = turn.state;
  bool const takes_over = state.proposer.taking_over() && state.phase != Phase::running;
  if (state.phase != Phase::standby && state.phase != Phase::lease_wait && !candidate(state) && !takes_over) {
    return false;
  }
  auto const known = state.election.dead.size();
  Millis const kill = lease_terms(turn.policy.heartbeat_timeout).kill;
  for (DeadSeat const& dead : follower_info.dead) {
    if (dead.rank < follower_info.decided.size) {
      // The kernel kills the workers of a dead agent, and no notice says that they are gone.
      note_dead(state, Held{follower_info.decided.number, dead.rank}, turn.now - dead.known_for + kill);
    }
  }
  return state.election.dead.size() > known;
}

/// While this agent coordinates, or did until the verdict.
Heard hear_active(Turn& turn, FollowerCalled const& event) {
  State& state = turn.state;
  Proposer& proposer = state.proposer;
  Election& election = state.election;
  FollowerInfo const& follower_info = event.follower_info;
  if (state.roster.present.contains(event.agent)) {
    return {};
  }
  if (state.phase == Phase::finished) {  // it has missed the verdict
    turn.act(Tell{event.agent, Finished{state.verdict->exit_code, state.verdict->summary}});
    turn.act(HangUp{event.agent});
    return {};
  }
  if (follower_info.decided.number > proposer.decided.number) {
    state.election.followers[event.agent] = follower_info;
    return {yield_to(turn, follower_info.decided)};
  }
  bool const aware = follower_info.decided.number == proposer.decided.number;
  auto const rank = aware ? follower_info.rank : ready_rank(follower_info, proposer.decided);
  if (gathering(state) && rank && election.missing.contains(*rank)) {
    state.election.followers[event.agent] = follower_info;
    election.voters.erase(event.agent);  // it calls again: whom it has promised meanwhile, we have to know
    return {ask(turn, event.agent, follower_info)};
  }
  if (election.voters.contains(event.agent)) {  // its vote counts, and it is let in with the next generation
    state.election.followers[event.agent] = follower_info;
    return {};
  }
  if (auto why = needed(turn, follower_info); !why.empty()) {
    state.election.followers[event.agent] = follower_info;
    return {next::Deposed{std::move(why)}};
  }
  return {stay, true};
}

Heard hear_in_phase(Turn& turn, FollowerCalled const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby) {
    state.election.followers[event.agent] = event.follower_info;
    redirect(turn, event.agent, event.follower_info);
    return {};
  }
  if (!candidate(state)) {
    return hear_active(turn, event);
  }
  auto const known = state.election.followers.find(event.agent);
  if (known != state.election.followers.end() && known->second.decided.number != event.follower_info.decided.number) {
    state.election.voters.erase(event.agent);
  }
  state.election.followers[event.agent] = event.follower_info;
  return {ask(turn, event.agent, event.follower_info)};
}

}  // namespace

Heard hear_caller(Turn& turn, FollowerCalled const& event) {
  bool const death = note_dead_seats(turn, event.follower_info);
  Heard heard = hear_in_phase(turn, event);
  heard.of_death = death;
  return heard;
}

Next hear(Turn& turn, Learned const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby) {
    state.election.learned = event;
    for (auto const& [agent, follower_info] : state.election.followers) {
      redirect(turn, agent, follower_info);
    }
  }
  return stay;
}

void refuse(Turn& turn, AgentId agent, std::string const& why) {
  turn.act(Tell{agent, Dropped{turn.state.number, why}});
  turn.act(HangUp{agent});
}

void drop_late_followers(Turn& turn, std::string const& why) {
  auto const late = std::exchange(turn.state.election.followers, {});
  for (auto const& [agent, follower_info] : late) {
    refuse(turn, agent, why);
  }
}

}  // namespace cxxrun::rendezvous
