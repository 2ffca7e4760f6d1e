// `srun cxxrun --doctor`: the nodes of a step tell the first one what they have found, and call each other. Shell.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/doctor/board.hpp"
#include "launcher/doctor/meeting.hpp"
#include "launcher/doctor/step_findings.hpp"
#include "src/base/os/caretaker.hpp"

namespace cxxrun::launcher::doctor {

/// The facts of all nodes, on the first one; nothing on the others, which have told it theirs. `own_name`: this node as
/// the others call it. `look` waits for this node's facts; by then other nodes have been called. An error: the first
/// node cannot be reached, or nothing can listen.
[[nodiscard]] Result<std::optional<std::vector<StepNode>>> meet_step(Meeting const& meeting,
                                                                     Transports const& transports,
                                                                     std::string const& own_name,
                                                                     std::function<Facts()> const& look,
                                                                     os::Caretaker const& caretaker);

}  // namespace cxxrun::launcher::doctor
