#include "rendezvous/membership/budget.hpp"

#include <algorithm>

#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Only the newest that can matter are kept: as many as the budget has.
void remember(State& state, std::uint32_t times, TimePoint now, Policy const& policy) {
  auto& when = state.restarted_at;
  when.insert(when.end(), std::min(times, policy.max_restarts), now);
  if (when.size() > policy.max_restarts) {
    when.erase(when.begin(), when.end() - static_cast<std::ptrdiff_t>(policy.max_restarts));
  }
}

}  // namespace

std::uint32_t restarts_counted(State const& state, TimePoint now, Policy const& policy) {
  if (policy.restart_window == Millis{0}) {
    return state.restarts;
  }
  return static_cast<std::uint32_t>(std::count_if(state.restarted_at.begin(), state.restarted_at.end(),
                                                  [&](TimePoint at) { return now - at < policy.restart_window; }));
}

bool restart_left(State const& state, TimePoint now, Policy const& policy) {
  return restarts_counted(state, now, policy) < policy.max_restarts;
}

void consume_restart(State& state, TimePoint now, Policy const& policy) {
  ++state.restarts;
  remember(state, 1, now, policy);
}

void inherit_restarts(State& state, std::uint32_t consumed, TimePoint now, Policy const& policy) {
  if (consumed > state.restarts) {
    remember(state, consumed - state.restarts, now, policy);
    state.restarts = consumed;
  }
}

std::string restart_text(State const& state, TimePoint now, Policy const& policy) {
  std::string const most = " of " + std::to_string(policy.max_restarts);
  std::string const text = "restart " + std::to_string(state.restarts);
  return policy.restart_window == Millis{0} ? text + most
                                            : text + " (" + std::to_string(restarts_counted(state, now, policy)) +
                                                  most + " within " + seconds_text(policy.restart_window) + ")";
}

}  // namespace cxxrun::rendezvous
