// Page: a job in a browser, for as long as it runs. Shell. docs/use/live.md.
#pragma once

#include "launcher/view/ctl_options.hpp"
#include "launcher/view/job_search.hpp"

namespace cxxrun::launcher::view {

/// Prints the address of the page, and serves it until a signal or the job's end. Returns the exit code.
[[nodiscard]] int show_page(Job const& job, CtlOptions const& options);

}  // namespace cxxrun::launcher::view
