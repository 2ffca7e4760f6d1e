// Following: shows what a job does as it happens, until it is over. Shell.
#pragma once

#include "launcher/view/ctl_options.hpp"
#include "launcher/view/job_search.hpp"

namespace cxxrun::launcher::view {

/// What has happened to the job; with `follow` what happens next, too, until the verdict. Of a coordinator that is
/// killed, what happened in the last tenth of a second may be missing. Returns the exit code.
[[nodiscard]] int show_events(Job const& job, CtlOptions const& options);

/// `logs -f`: the last lines of a worker's log files, and then each that it writes. Returns the exit code.
[[nodiscard]] int follow_logs(Job const& job, CtlOptions const& options);

}  // namespace cxxrun::launcher::view
