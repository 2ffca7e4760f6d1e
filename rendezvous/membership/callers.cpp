#include "rendezvous/membership/callers.hpp"

#include <utility>

#include "rendezvous/membership/electing.hpp"
#include "rendezvous/membership/granting.hpp"

namespace cxxrun::rendezvous {
namespace {

/// It waits here for an election that is over, and may not know anybody who leads: is told who may.
void redirect(Turn& turn, AgentId agent, Elector const& elector) {
  auto const& learned = turn.state.learned;
  if (learned && elector.decided.number < learned->decree.number) {
    turn.act(Tell{agent, Decided{learned->decree, learned->successors, false}});
  }
}

/// While this agent coordinates, or did until the verdict.
Heard hear_active(Turn& turn, Followed const& event) {
  State& state = turn.state;
  Mandate& mandate = state.mandate;
  Elector const& elector = event.elector;
  if (state.present.contains(event.agent)) {
    return {};
  }
  if (state.phase == Phase::finished) {  // it has missed the verdict
    turn.act(Tell{event.agent, Finished{state.verdict->exit_code, state.verdict->summary}});
    turn.act(HangUp{event.agent});
    return {};
  }
  if (elector.decided.number > mandate.decided.number) {
    state.electors[event.agent] = elector;
    return {yield_to(turn, elector.decided)};
  }
  if (gathering(state) && elector.decided.number == mandate.decided.number && elector.rank &&
      mandate.missing.contains(*elector.rank)) {
    state.electors[event.agent] = elector;
    mandate.voters.erase(event.agent);  // it calls again: whom it has promised meanwhile, we have to know
    return {ask(turn, event.agent, elector)};
  }
  if (mandate.voters.contains(event.agent)) {  // its vote counts, and it is let in with the next generation
    state.electors[event.agent] = elector;
    return {};
  }
  if (auto why = needed(turn, elector); !why.empty()) {
    state.electors[event.agent] = elector;
    return {next::Deposed{std::move(why)}};
  }
  return {stay, true};
}

}  // namespace

Heard hear_caller(Turn& turn, Followed const& event) {
  State& state = turn.state;
  if (state.phase == Phase::standby) {
    state.electors[event.agent] = event.elector;
    redirect(turn, event.agent, event.elector);
    return {};
  }
  if (!candidate(state)) {
    return hear_active(turn, event);
  }
  auto const known = state.electors.find(event.agent);
  if (known != state.electors.end() && known->second.decided.number != event.elector.decided.number) {
    state.mandate.voters.erase(event.agent);
  }
  state.electors[event.agent] = event.elector;
  return {ask(turn, event.agent, event.elector)};
}

void learn(Turn& turn, Learned const& event) {
  State& state = turn.state;
  if (state.phase != Phase::standby) {
    return;
  }
  state.learned = event;
  for (auto const& [agent, elector] : state.electors) {
    redirect(turn, agent, elector);
  }
}

void refuse(Turn& turn, AgentId agent, std::string const& why) {
  turn.act(Tell{agent, Dropped{turn.state.number, why}});
  turn.act(HangUp{agent});
}

void drop_late_electors(Turn& turn, std::string const& why) {
  auto const late = std::exchange(turn.state.electors, {});
  for (auto const& [agent, elector] : late) {
    refuse(turn, agent, why);
  }
}

}  // namespace cxxrun::rendezvous
