// Discovery: the small file in the shared home directory by which steps of a job, and nodes that are added to it, find
// the coordinator. Its name and contents; place/discovery_file.hpp reads and writes it. Pure.
//
// cxxrun-rendezvous writes CLUSTER-JOB. CLUSTER-JOB.STEP is written by the first agent of a step that nodes may be
// added to, and by each agent that is elected to coordinate it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

/// The contents of the file.
struct Discovery {
  std::string job;                     ///< Slurm's job id
  std::uint32_t restarts = 0;          ///< SLURM_RESTART_COUNT when the file was written
  std::string run_id;                  ///< the run that the coordinator serves; "" = all runs of the job
  std::vector<std::string> addresses;  ///< names or literals of its host, the best first; at most 16
  std::uint16_t port = 0;
  std::string nonce;  ///< identifies the coordinator: another program may have its port by now
  std::string key;    ///< key of its runs, in hexadecimal; "" = --auth none
  /// The generation that elected the coordinator, and the ballot (round, rank); zeros for the first coordinator.
  std::array<std::uint64_t, 3> elected{};
  std::string host;      ///< informational
  std::int64_t pid = 0;  ///< on that host
  std::string path;      ///< of the file; not stored in it
  bool operator==(Discovery const&) const = default;
};

/// Whether `there` belongs to an agent that was elected later in the same run, so that `ours` must not replace it.
[[nodiscard]] bool supersedes(Discovery const& there, Discovery const& ours);

/// The job of --join: JOBID or JOBID.STEP.
struct JoinTarget {
  std::string job;
  std::string step;  ///< "" = not given
  bool operator==(JoinTarget const&) const = default;
};

/// The longest file that is read.
inline constexpr std::size_t kMaxDiscovery = 16384;

[[nodiscard]] std::string discovery_text(Discovery const& discovery);
/// Errc::protocol, naming `path`, for any other text. Total.
[[nodiscard]] Result<Discovery> parse_discovery(std::string_view text, std::string const& path);

/// SLURM_RESTART_COUNT: how often the job was requeued; 0 if not set.
[[nodiscard]] std::uint32_t restart_count(Environment const& environment);
/// $CXXRUN_DISCOVERY_DIR, else $HOME/.cxxrun/rendezvous; "" if neither is set.
[[nodiscard]] std::string discovery_dir(Environment const& environment);
/// The file name for this Slurm job, or for one step of it. "" outside a job.
[[nodiscard]] std::string discovery_name(Environment const& environment, std::string const& step = "");

/// Empty if the job was requeued since the file was written: its writer ended with the earlier run.
[[nodiscard]] std::optional<Discovery> of_this_run_of_the_job(std::optional<Discovery> discovery,
                                                              Environment const& environment);

[[nodiscard]] Result<JoinTarget> parse_join_target(std::string const& text);
/// Whether a file of that name may be of the target. Without SLURM_CLUSTER_NAME any cluster matches.
[[nodiscard]] bool may_lead_to(std::string_view name, JoinTarget const& target, Environment const& environment);
/// The file of the target: that of cxxrun-rendezvous before those of steps, or the other way round if the target names
/// a step. Errc::closed if there is none, Errc::usage if there are several; the text says what to type.
[[nodiscard]] Result<Discovery> choose_discovery(std::vector<Discovery> const& found, JoinTarget const& target,
                                                 std::string const& dir);

}  // namespace cxxrun::launcher
