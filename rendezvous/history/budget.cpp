#include "rendezvous/history/budget.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Only the newest that can matter are kept: as many as the budget has.
void remember(Restarts& restarts, std::uint32_t times, TimePoint now, Policy const& policy) {
  auto& when = restarts.newest;
  when.insert(when.end(), std::min(times, policy.max_restarts), now);
  if (when.size() > policy.max_restarts) {
    when.erase(when.begin(), when.end() - static_cast<std::ptrdiff_t>(policy.max_restarts));
  }
}

}  // namespace

std::uint32_t restarts_counted(Restarts const& restarts, TimePoint now, Policy const& policy) {
  if (policy.restart_window == Millis{0}) {
    return restarts.consumed;
  }
  return static_cast<std::uint32_t>(std::count_if(restarts.newest.begin(), restarts.newest.end(),
                                                  [&](TimePoint at) { return now - at < policy.restart_window; }));
}

void consume_restart(Restarts& restarts, TimePoint now, Policy const& policy) {
  ++restarts.consumed;
  remember(restarts, 1, now, policy);
}

void inherit_restarts(Restarts& restarts, std::uint32_t consumed, TimePoint now, Policy const& policy) {
  if (consumed > restarts.consumed) {
    remember(restarts, consumed - restarts.consumed, now, policy);
    restarts.consumed = consumed;
  }
}

void inherit_decree(Restarts& restarts, Decree const& decided, TimePoint now, Policy const& policy) {
  inherit_restarts(restarts, decided.restarts, now, policy);
  restarts.streak = decided.streak;
  restarts.executed = restarts.begun = true;
}

std::string restart_text(Restarts const& restarts, TimePoint now, Policy const& policy) {
  std::string const most = " of " + std::to_string(policy.max_restarts);
  std::string const text = "restart " + std::to_string(restarts.consumed);
  return policy.restart_window == Millis{0} ? text + most
                                            : text + " (" + std::to_string(restarts_counted(restarts, now, policy)) +
                                                  most + " within " + seconds_text(policy.restart_window) + ")";
}

}  // namespace cxxrun::rendezvous
