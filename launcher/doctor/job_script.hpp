// `cxxrun --init`: writes a job script for this cluster. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher::doctor {

/// For `sinfo -o`: one line per partition and kind of node.
inline constexpr char const* kSinfoFormat = "%P|%a|%D|%c|%G|%l";

/// Nodes of one kind in a partition.
struct NodeKind {
  std::string partition;
  bool is_default = false;  ///< of the default partition
  unsigned nodes = 0;
  unsigned cpus = 0;  ///< of each, at least
  unsigned gpus = 0;
  std::string time_limit;  ///< as Slurm writes it
  bool operator==(NodeKind const&) const = default;
};
/// Total: skips malformed lines and partitions that are not up.
[[nodiscard]] std::vector<NodeKind> read_sinfo(std::string_view text);

/// For sbatch. Chooses the kind of node: prefers GPUs, then the default partition, then the larger number of nodes.
/// `command`: the arguments of cxxrun. `why_none`: why `kinds` is empty. `nodes`: for sbatch --nodes; "": two, or the
/// one that there is.
[[nodiscard]] std::string job_script(std::vector<NodeKind> const& kinds, std::string const& command,
                                     std::string const& why_none, std::string const& nodes = "");

}  // namespace cxxrun::launcher::doctor
