// Discovery: the small file in the shared home by which the steps of a job, and nodes that are added to it, find its
// coordinator. Names and contents; pure. discovery_file.hpp reads and writes.
//
// CLUSTER-JOB is written by cxxrun-rendezvous, CLUSTER-JOB.STEP by the first agent of a step that nodes may be added
// to, and by each agent that is elected to coordinate it.
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

/// What the file says.
struct Discovery {
  std::string job;                     ///< Slurm's job id
  std::uint32_t restarts = 0;          ///< SLURM_RESTART_COUNT of the job when it was written
  std::string run_id;                  ///< the run that the coordinator has; "" = those of the whole job
  std::vector<std::string> addresses;  ///< names or literals of one host, the best one first; at most 16
  std::uint16_t port = 0;
  std::string nonce;  ///< by which the coordinator is recognised: somebody else may have its port by now
  std::string key;    ///< of its runs, in hexadecimal digits; "" = --auth none
  std::array<std::uint64_t, 3>
      elected{};         ///< by which generation, and the ballot (round, rank); 0: by nobody, the first
  std::string host;      ///< for people
  std::int64_t pid = 0;  ///< on that host
  std::string path;      ///< of the file; not in it
  bool operator==(Discovery const&) const = default;
};

/// Whether `there` is of an agent that was elected later in the same run: `ours` comes too late to take its place.
[[nodiscard]] bool supersedes(Discovery const& there, Discovery const& ours);

/// A job to be joined: JOBID or JOBID.STEP.
struct JoinTarget {
  std::string job;
  std::string step;  ///< "" = the only one
  bool operator==(JoinTarget const&) const = default;
};

/// The longest file that is read.
inline constexpr std::size_t kMaxDiscovery = 16384;

[[nodiscard]] std::string discovery_text(Discovery const& discovery);
/// Errc::protocol, naming `path`, for anything that is not such a file. Total.
[[nodiscard]] Result<Discovery> parse_discovery(std::string_view text, std::string const& path);

/// SLURM_RESTART_COUNT: how often the job was requeued; 0 when it is not set.
[[nodiscard]] std::uint32_t restart_count(Environment const& environment);
/// $CXXRUN_DISCOVERY_DIR, else $HOME/.cxxrun/rendezvous; "" when neither is set.
[[nodiscard]] std::string discovery_dir(Environment const& environment);
/// The file name for this Slurm job; with a step, for that step alone. "" outside a job.
[[nodiscard]] std::string discovery_name(Environment const& environment, std::string const& step = "");

/// Nothing when the job was requeued since the file was written: its writer has ended with the earlier run.
[[nodiscard]] std::optional<Discovery> of_this_run_of_the_job(std::optional<Discovery> discovery,
                                                              Environment const& environment);

[[nodiscard]] Result<JoinTarget> parse_join_target(std::string const& text);
/// Whether a file of that name may lead to the target. Without SLURM_CLUSTER_NAME any cluster will do.
[[nodiscard]] bool may_lead_to(std::string_view name, JoinTarget const& target, Environment const& environment);
/// The one that leads there: that of cxxrun-rendezvous before those of steps. Errc::closed when there is none,
/// Errc::usage when it could be several; the line says what to type.
[[nodiscard]] Result<Discovery> choose_discovery(std::vector<Discovery> const& found, JoinTarget const& target,
                                                 std::string const& dir);

}  // namespace cxxrun::launcher
