#include "rendezvous/membership/transitions.hpp"

#include <utility>

#include "rendezvous/membership/electing.hpp"
#include "rendezvous/membership/ending.hpp"
#include "rendezvous/membership/forming.hpp"
#include "rendezvous/membership/granting.hpp"
#include "rendezvous/membership/proposing.hpp"
#include "rendezvous/membership/starting.hpp"

namespace cxxrun::rendezvous {
namespace {

Next begin(Turn& /*turn*/, next::Stay const&) {
  return stay;
}
Next begin(Turn& turn, next::Electing const& what) {
  turn.state.phase = Phase::electing;
  return begin_electing(turn, what.ballot);
}
Next begin(Turn& turn, next::Standby const& what) {
  turn.state.phase = Phase::standby;
  begin_standby(turn, what.why);
  return stay;
}
Next begin(Turn& turn, next::Forming const&) {
  turn.state.phase = Phase::forming;
  return begin_forming(turn);
}
Next begin(Turn& turn, next::FormingAgain const&) {
  return begin_forming_again(turn);
}
Next begin(Turn& turn, next::Opening const&) {
  turn.state.phase = Phase::opening;
  begin_opening(turn);
  return stay;
}
Next begin(Turn& turn, next::Preparing const& what) {
  turn.state.phase = Phase::preparing;
  begin_preparing(turn, what.store);
  return stay;
}
Next begin(Turn& turn, next::Proposing const&) {
  turn.state.phase = Phase::proposing;
  return begin_proposing(turn);
}
Next begin(Turn& turn, next::Decided const&) {
  return begin_decided(turn);
}
Next begin(Turn& turn, next::LeaseWait const&) {
  turn.state.phase = Phase::lease_wait;
  return begin_lease_wait(turn);
}
Next begin(Turn& turn, next::Running const&) {
  turn.state.phase = Phase::running;
  begin_running(turn);
  return stay;
}
Next begin(Turn& turn, next::Stopping const& what) {
  turn.state.phase = Phase::stopping;
  return begin_stopping(turn, what.reason);
}
Next begin(Turn& turn, next::StoppingLate const& what) {
  begin_stopping_late(turn, what.agent);
  turn.state.phase = Phase::stopping;
  return stay;
}
Next begin(Turn& turn, next::Stopped const&) {
  return begin_stopped(turn);
}
Next begin(Turn& turn, next::Finished const& what) {
  turn.state.phase = Phase::finished;
  begin_finishing(turn, what.verdict);
  return stay;
}
Next begin(Turn& turn, next::Deposed const& what) {
  step_down(turn, what.why);
  turn.state.phase = Phase::deposed;
  return stay;
}

}  // namespace

void go_on(Turn& turn, Next next) {
  while (!std::holds_alternative<next::Stay>(next)) {
    Next const now = std::move(next);
    next = std::visit([&](auto const& what) { return begin(turn, what); }, now);
  }
}

}  // namespace cxxrun::rendezvous
