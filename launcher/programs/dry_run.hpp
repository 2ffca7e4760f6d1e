// The text of --dry-run: what would be started here. Contacts no other node. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.hpp"
#include "launcher/place/topology.hpp"
#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::launcher {

/// The workers of a first start, assuming that all nodes are like this one.
[[nodiscard]] std::vector<WorkerSpec> likely_workers(Options const& options, JobTopology const& topology,
                                                     NodeFacts const& found, Environment const& inherited);

/// Ends with a newline. Ranks assume that all nodes are like this one. A port that only a real start decides is shown
/// as
/// "(chosen at start)". Prints the values of variables that cxxrun sets, never of inherited ones. `program` is the file
/// that each worker executes; "" if unknown. Ignores `found.log_root`, because no directory exists yet.
[[nodiscard]] std::string dry_run_text(Options const& options, JobTopology const& topology, NodeFacts const& found,
                                       Environment const& inherited, std::string const& program);

}  // namespace cxxrun::launcher
