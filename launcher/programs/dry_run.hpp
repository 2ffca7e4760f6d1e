// The text of --dry-run: what would be started here, without contacting anybody. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.hpp"
#include "launcher/place/topology.hpp"
#include "launcher/plan/worker_plan.hpp"

namespace cxxrun::launcher {

/// The workers of a first start with all nodes alike.
[[nodiscard]] std::vector<WorkerSpec> likely_workers(Options const& options, JobTopology const& topology,
                                                     NodeFacts const& found, Environment const& inherited);

/// Ends with a newline. Ranks are those of a first start with all nodes alike; ports that only a real start decides are
/// named, not invented. Values of inherited variables are never printed, only of those that cxxrun sets. `program` is
/// the file that each worker executes, or "" when that is not known. `found.log_root` is not looked at: no directory
/// exists yet.
[[nodiscard]] std::string dry_run_text(Options const& options, JobTopology const& topology, NodeFacts const& found,
                                       Environment const& inherited, std::string const& program);

}  // namespace cxxrun::launcher
