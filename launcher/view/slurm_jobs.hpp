// SlurmJobs: which job of Slurm is meant where cxxrunctl finds none on its own node, and how srun starts it inside that
// job. Pure. docs/use/live.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher::view {

/// The option of a cxxrunctl that only passes on what another one asks (relay.hpp).
inline constexpr char const* kRelayOption = "--relay";

struct SlurmJob {
  std::string number;
  std::string name;  ///< as people type it: the same, or "4711_3" of an array
  std::vector<std::string> nodes;
};

/// What lists the jobs of this user that run.
[[nodiscard]] std::vector<std::string> squeue_words();
/// Reads that list, a line for each job. A line of another form is left out.
[[nodiscard]] std::vector<SlurmJob> read_squeue(std::string_view text);

/// Whether `job`, as the user types it, can be one of Slurm's; the id of a run cannot. "": any.
[[nodiscard]] bool may_be_slurm_job(std::string_view job);
/// Those that `job` means, or their step: all if it is "".
[[nodiscard]] std::vector<SlurmJob> jobs_meant(std::vector<SlurmJob> jobs, std::string_view job);

/// What is said when several are meant.
[[nodiscard]] std::string several_jobs_text(std::vector<SlurmJob> const& jobs);
/// "no job 4711 of yours runs", without its end.
[[nodiscard]] std::string no_job_text(std::string_view job);

/// What starts `program` on a node of the job, beside its steps, as a relay. `job`: as the user types it.
[[nodiscard]] std::vector<std::string> srun_words(SlurmJob const& slurm_job, std::string const& node,
                                                  std::string const& program, std::string_view job);
/// The environment for both: that of this process, without what srun would take for its options.
[[nodiscard]] Environment environment_for_slurm(Environment environment);

}  // namespace cxxrun::launcher::view
