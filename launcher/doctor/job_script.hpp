// `cxxrun --init`: a job script for this cluster. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher::doctor {

/// What `sinfo` is asked for: a line for each kind of node of each partition.
inline constexpr char const* kSinfoFormat = "%P|%a|%D|%c|%G|%l";

/// Nodes of one kind in a partition.
struct NodeKind {
  std::string partition;
  bool usual = false;  ///< of the partition that Slurm takes by itself
  unsigned nodes = 0;
  unsigned cpus = 0;  ///< of each, at least
  unsigned gpus = 0;
  std::string time_limit;  ///< in Slurm's words
  bool operator==(NodeKind const&) const = default;
};
/// Total: lines that are something else, and partitions that are not up, are left out.
[[nodiscard]] std::vector<NodeKind> read_sinfo(std::string_view text);

/// For sbatch. The kind of node: with GPUs before without, then of the usual partition, then the most numerous.
/// `command`: what srun is to start, behind cxxrun. `why_none`: why no kinds are known.
[[nodiscard]] std::string job_script(std::vector<NodeKind> const& kinds, std::string const& command,
                                     std::string const& why_none);

}  // namespace cxxrun::launcher::doctor
