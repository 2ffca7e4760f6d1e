// Top: the status of a job on a terminal, each second. Shell.
#pragma once

#include <string>

#include "launcher/view/job_search.hpp"

namespace cxxrun::launcher::view {

/// Why `top` cannot be shown here; "": it can.
[[nodiscard]] std::string objection_to_top();
/// Until a key or a signal ends it, or the agent that is asked. Returns the exit code.
[[nodiscard]] int show_top(Job const& job);

}  // namespace cxxrun::launcher::view
