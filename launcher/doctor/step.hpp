// `srun cxxrun --doctor`: the nodes of a step tell the first one what they have found, and call each other. Shell.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "launcher/doctor/step_findings.hpp"
#include "launcher/place/slurm_env.hpp"

namespace cxxrun::launcher::doctor {

/// The facts of all nodes, on the first one; nothing on the others, which have told it theirs. `look` waits for this
/// node's facts; by then other nodes have been called. An error: the first node cannot be reached, or nothing can
/// listen.
[[nodiscard]] Result<std::optional<std::vector<StepNode>>> meet_step(SlurmStep const& step,
                                                                     std::function<Facts()> const& look);

}  // namespace cxxrun::launcher::doctor
