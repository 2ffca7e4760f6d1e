// RequeueJob: the shell around requeue.hpp: it looks whether there is progress, asks Slurm, once for the report and the
// requeue, and keeps the history.
//
// For the agent that hosts the coordinator only, so that one agent of the job asks. Blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/job_end/requeue.hpp"
#include "launcher/options/options.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

/// What is seen of --progress-path: a file, or a directory and its entries, at most 10,000 of them.
struct Footprint {
  bool exists = false;
  std::int64_t newest_ns = 0;  ///< modification time of the newest
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
  bool operator==(Footprint const&) const = default;
};
[[nodiscard]] Footprint look_at(std::string const& path);

class RequeueJob {
 public:
  /// Both outlive it.
  RequeueJob(Options const& options, Environment const& environment) : options_(options), environment_(environment) {}

  /// At the start: says when --requeue cannot have an effect here, looks at --progress-path.
  void begin();
  /// Of earlier runs of the job. Reads a file.
  [[nodiscard]] std::vector<rendezvous::NodeFault> known_faults() const;
  /// At the end, when no worker is left, before the report: why SIGTERM has ended a job of Slurm's, as slurmctld knows
  /// it (end_reason.hpp); "" for other ends, and when it does not answer within 1 s.
  [[nodiscard]] std::string look_why(rendezvous::Verdict const& verdict);
  /// After that: asks Slurm for a requeue if the way the job ended is a reason, with one line
  /// about what came of it. At most 10 s, when slurmctld does not answer. Returns the exit code that takes the place of
  /// the verdict's, if one does. With --requeue or without it, names nodes that were to blame more than once.
  [[nodiscard]] std::optional<int> conclude(rendezvous::Verdict const& verdict, bool checkpoint_passed,
                                            bool limit_reached);

 private:
  [[nodiscard]] bool active() const;
  [[nodiscard]] std::string history_path() const;

  Options const& options_;
  Environment const& environment_;
  Footprint before_;
  std::optional<requeue::JobState> seen_;  // what look_why() was told
};

}  // namespace cxxrun::launcher
