// Health check: the command that --health-check runs on a node before a generation, and what its end means. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/worker_plan.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/core/time.hpp"

namespace cxxrun::launcher {

/// The check as a process to start: `/bin/sh -c` with the inherited environment and CXXRUN_GENERATION, CXXRUN_HOST,
/// CXXRUN_RUN_ID, LOCAL_WORLD_SIZE. Both its streams are one, prefixed "[host:health] ", and with log files also in
/// health.log of the generation's directory.
[[nodiscard]] WorkerSpec plan_check(rendezvous::Generation const& generation, Options const& options,
                                    NodeFacts const& facts, Environment const& inherited);

/// Why the node is unfit, in one line with the last line of the check's output; "" when the check passed. `limit` is
/// set when the check was killed because it ran longer.
[[nodiscard]] std::string explain_check(std::vector<rendezvous::WorkerExit> const& exits,
                                        std::vector<std::string> const& unkillable, std::optional<Millis> limit);

}  // namespace cxxrun::launcher
