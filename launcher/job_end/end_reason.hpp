// End reason: why Slurm has told a job to end, from slurmctld's own state of it. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/job_end/requeue.hpp"

namespace cxxrun::launcher::requeue {

/// "time limit reached", "cancelled", "requeued by Slurm", "preempted, about 40 s left", …; for a job that SIGTERM has
/// ended. docs/use/signals.md has them. `restarts`: SLURM_RESTART_COUNT. `recent`, `now`: as Slurm writes times.
[[nodiscard]] std::string end_reason(JobState const& job, std::uint32_t restarts, std::string const& recent,
                                     std::string const& now);

}  // namespace cxxrun::launcher::requeue
