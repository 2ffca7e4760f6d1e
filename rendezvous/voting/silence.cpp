#include "rendezvous/voting/silence.hpp"

#include <algorithm>

namespace cxxrun::rendezvous {

void heard(SilenceState& state, AgentId peer, TimePoint now, SilencePolicy const& policy) {
  if (policy.timeout <= Millis{0}) {
    return;
  }
  state.heard[peer] = now;
  if (!state.due) {
    state.due = now + policy.period();
  }
}

void forget(SilenceState& state, AgentId peer) {
  state.heard.erase(peer);
  if (state.heard.empty()) {
    state.due.reset();
  }
}

SilenceTick tick(SilenceState& state, TimePoint now, SilencePolicy const& policy) {
  SilenceTick result;
  result.stalled = state.due && now - *state.due > policy.period();
  TimePoint oldest = now;
  for (auto it = state.heard.begin(); it != state.heard.end();) {
    if (result.stalled) {
      it->second = now;
    } else if (now - it->second >= policy.limit()) {
      result.lost.push_back(it->first);
      it = state.heard.erase(it);
      continue;
    }
    oldest = std::min(oldest, it->second);
    ++it;
  }
  state.due.reset();
  if (!state.heard.empty()) {
    state.due = std::min(now + policy.period(), oldest + policy.limit());
  }
  return result;
}

}  // namespace cxxrun::rendezvous
