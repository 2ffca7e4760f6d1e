// Budget: how many restarts are left. Pure.
//
// --max-restarts counts over the job's whole life, or within a sliding --restart-window. One count for the job: it
// is part of every generation and decree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/history/policy.hpp"
#include "rendezvous/values/decree.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Part of membership's State.
struct Restarts {
  std::uint32_t consumed = 0;
  std::vector<TimePoint> newest;  ///< when those were that can matter, at most max_restarts
  Streak streak;
  bool executed = false;  ///< the program has been started once, on some node
  bool begun = false;     ///< and has come so far that it lacked nothing
};

/// Consumed restarts that count against max_restarts now.
[[nodiscard]] std::uint32_t restarts_counted(Restarts const& restarts, TimePoint now, Policy const& policy);
[[nodiscard]] inline bool restart_left(Restarts const& restarts, TimePoint now, Policy const& policy) {
  return restarts_counted(restarts, now, policy) < policy.max_restarts;
}
/// Consumes one.
void consume_restart(Restarts& restarts, TimePoint now, Policy const& policy);
/// Whoever begins with a job that is under way knows how many its predecessors consumed, not when: they count as of
/// now, so that taking over never gives a job more restarts than it was allowed.
void inherit_restarts(Restarts& restarts, std::uint32_t consumed, TimePoint now, Policy const& policy);
/// An elected coordinator takes over what the last decree says. How far the program came nobody has told it: far
/// enough.
void inherit_decree(Restarts& restarts, Decree const& decided, TimePoint now, Policy const& policy);
/// "restart 2 of 3", or "restart 7 (2 of 3 within 3600 s)", of the one consumed last.
[[nodiscard]] std::string restart_text(Restarts const& restarts, TimePoint now, Policy const& policy);

}  // namespace cxxrun::rendezvous
