// What Slurm tells a task of a step through its environment. Pure.
//
// Uses the variables of the step. Those of the job also name lost nodes, and nodes outside a smaller step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

struct Options;

/// The step this process is a task of.
struct SlurmStep {
  std::string run_id;                   ///< "<job>.<step>", and ".<restarts>" once the job was requeued
  std::vector<std::string> node_names;  ///< of the step, in Slurm's order
  std::uint32_t node_index = 0;         ///< SLURM_NODEID: this node's position in node_names
  std::uint32_t task_index = 0;         ///< SLURM_LOCALID: position among the tasks of this node
  std::uint32_t tasks_on_node = 1;
  bool several_tasks = false;  ///< some node of the step has more than one task
  std::uint32_t process = 0;   ///< SLURM_PROCID: position among the tasks of the step
  std::uint32_t tasks = 1;     ///< of the step
  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(node_names.size()); }
  bool operator==(SlurmStep const&) const = default;
};

struct SlurmView {
  /// Empty outside Slurm and in a process that is not a task: in a batch script, in the shell of salloc or srun --pty,
  /// below a worker of another cxxrun.
  std::optional<SlurmStep> step;
  std::vector<std::string> notes;  ///< warnings, for example to start cxxrun with srun to use all nodes
  std::string remark = {};         ///< why a step is ignored, where that is the normal case
  bool operator==(SlurmView const&) const = default;
};

/// Removes SLURM_STEP_* if this process is not a task of that step. A batch script that was submitted by a task
/// inherits them (sbatch --export=ALL). `slurmstepd` is the title of the slurmstepd that started this process, for
/// example "slurmstepd: [4.batch]". Since 26.05 SLURM_STEP_ID is -5 in batch scripts and -6 in the shell of salloc.
[[nodiscard]] Environment without_false_step(Environment environment, std::string_view slurmstepd);
/// What this process knows about itself without variables.
struct Whereabouts {
  std::string host;    ///< "" if unknown
  bool typed = false;  ///< an interactive shell started it, not Slurm
};

/// Errc::environment, in one line that names the variables, if they are incomplete, malformed or contradict each other:
/// a container passed only some of them on, or one was set by hand.
[[nodiscard]] Result<SlurmView> read_slurm(Environment const& environment, Whereabouts const& here = {});

/// Errc::environment if slurmstepd started this process but no variable names a job: all were lost on the way. Without
/// them each node would run a job of its own. Empty if flags describe the job, and below a worker of another cxxrun.
/// `find_ancestor` is os::find_ancestor; it is called only if needed.
[[nodiscard]] std::optional<Error> lost_slurm(Options const& options, Environment const& environment,
                                              std::function<std::optional<int>(std::string_view)> const& find_ancestor);

}  // namespace cxxrun::launcher
