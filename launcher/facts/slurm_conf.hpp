// The two lines of slurm.conf that decide how a job's end reaches cxxrun. Pure.
#pragma once

#include <string_view>

#include "src/core/time.hpp"

namespace cxxrun::launcher {

struct SlurmConf {
  Millis kill_wait{30'000};  ///< KillWait: from Slurm's SIGTERM to its SIGKILL; Slurm's own default is 30 s
  bool signals_all = false;  ///< proctrack/linuxproc: Slurm's signals go to every descendant of a task, not to it alone
  bool operator==(SlurmConf const&) const = default;
};

/// Reads KEY=VALUE lines as Slurm does: keys in any case, '#' begins a comment. Files named by Include are not read,
/// and what is malformed or missing keeps Slurm's default. Total: any text has an answer.
[[nodiscard]] SlurmConf parse_slurm_conf(std::string_view text);

}  // namespace cxxrun::launcher
