#include "rendezvous/membership/redirecting.hpp"

namespace cxxrun::rendezvous {

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

void redirect(Turn& turn, AgentId agent, Elector const& elector) {
  auto const& learned = turn.state.learned;
  if (learned && elector.decided.number < learned->decree.number) {
    turn.act(Tell{agent, Decided{learned->decree, learned->successors, false}});
  }
}

}  // namespace cxxrun::rendezvous
