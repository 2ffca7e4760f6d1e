#include <algorithm>
#include <utility>

#include "rendezvous/following/follower.hpp"

namespace cxxrun::rendezvous::follower {
namespace {

/// At no address: wherever it was looked for, and not only where the connection led that has ended.
Successor coordinator_of(Known const& decided) {
  Successor to;
  to.rank = decided.decree.coordinator;
  auto const known = std::find_if(decided.successors.begin(), decided.successors.end(),
                                  [&](Successor const& each) { return each.rank == to.rank; });
  to.host = known == decided.successors.end() ? "" : known->host;
  return to;
}

}  // namespace

Millis recall_time(Policy const& policy) {
  return patience(policy) * 2 / 5;
}

void recall(Turn& turn, std::string how) {
  abandon(turn, "nobody can take over");
  Recall recall;
  recall.how = std::move(how);
  recall.again = turn.now;
  recall.until = turn.now + recall_time(turn.policy);
  turn.state.recall = std::move(recall);
  call_again(turn);
}

bool is_lost_for_good(State const& state, TimePoint now) {
  return state.recall && (state.recall->over || now >= state.recall->until);
}

bool recall_failed(Turn& turn, LinkId id, bool refused) {
  auto& recall = turn.state.recall;
  if (!recall || recall->link != id) {
    return false;
  }
  turn.state.links.erase(id);
  recall->link = 0;
  recall->over = refused;
  recall->again = turn.now + turn.policy.spacing;
  return true;
}

void call_again(Turn& turn) {
  auto& recall = turn.state.recall;
  if (!recall || recall->link != 0 || turn.now < recall->again) {
    return;
  }
  Link link;
  link.to = coordinator_of(turn.state.decided);
  link.dialled = true;
  recall->link = ++turn.state.last_link;
  turn.act(Dial{recall->link, link.to});
  turn.state.links.emplace(recall->link, std::move(link));
}

}  // namespace cxxrun::rendezvous::follower
