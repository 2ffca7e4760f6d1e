// RequeueJob: asks Slurm why the job ended and for its requeue, and keeps the history. Shell of requeue.hpp. Blocks.
//
// Only the agent that hosts the coordinator uses it, so that one agent of the job asks. Slurm is asked for the job's
// state once, for the report and the requeue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/job_end/requeue.hpp"
#include "launcher/options/options.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

/// The state of --progress-path: a file, or a directory with at most 10,000 of its entries.
struct Footprint {
  bool exists = false;
  std::int64_t newest_ns = 0;  ///< newest modification time
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  bool operator==(Footprint const&) const = default;
};
[[nodiscard]] Footprint look_at(std::string const& path);

/// Which moments the run has reached.
struct Reached {
  bool checkpoint = false;  ///< the checkpoint signal was passed to workers
  bool late = false;        ///< it was due before the run began
  bool limit = false;       ///< --time-limit
};

class RequeueJob {
 public:
  /// Both arguments outlive it.
  RequeueJob(Options const& options, Environment const& environment) : options_(options), environment_(environment) {}

  /// At the start: warns if --requeue has no effect, and samples --progress-path.
  void begin();
  /// Node faults of earlier runs of the job. Reads a file.
  [[nodiscard]] std::vector<rendezvous::NodeFault> known_faults() const;
  /// At the end, when no worker is left, before the report: why Slurm has ended the job by SIGTERM (end_reason()). ""
  /// for other ends, and if slurmctld does not answer within 1 s.
  [[nodiscard]] std::string look_why(rendezvous::Verdict const& verdict);
  /// After that: asks Slurm for a requeue if the end of the job is a reason for one, and logs one line about it. Takes
  /// at most 10 s if slurmctld does not answer. Returns the exit code that replaces the verdict's, if any. It names
  /// nodes that caused failures more than once, also without --requeue.
  [[nodiscard]] std::optional<int> conclude(rendezvous::Verdict const& verdict, Reached const& reached);

 private:
  [[nodiscard]] bool active() const;
  [[nodiscard]] std::string history_path() const;

  Options const& options_;
  Environment const& environment_;
  Footprint before_;
  std::optional<requeue::JobState> seen_;  // Slurm's answer in look_why()
};

}  // namespace cxxrun::launcher
