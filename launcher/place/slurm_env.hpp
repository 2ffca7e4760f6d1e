// What Slurm tells a task of a step, read from its environment. Pure.
//
// Only variables of the step are used: those of the job still name lost nodes and nodes outside a smaller step.
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
  std::optional<SlurmStep> step;   ///< none outside Slurm and where this is no task of one: in a batch script, in
                                   ///< salloc's shell, in the shell of srun --pty, below a worker of another cxxrun
  std::vector<std::string> notes;  ///< "run with srun", when others or more nodes may have been meant
  std::string remark = {};         ///< why a step does not count, where that is as it should be
  bool operator==(SlurmView const&) const = default;
};

/// Without SLURM_STEP_* where they tell of no step that this process is a task of. A batch script that a task has
/// submitted inherits them (sbatch --export=ALL): `slurmstepd` is the title of the one that started this process, as
/// "slurmstepd: [4.batch]". Since 26.05 batch scripts and salloc's shell have a SLURM_STEP_ID of -5 and -6.
[[nodiscard]] Environment without_false_step(Environment environment, std::string_view slurmstepd);
/// What this process knows of itself, and no variable tells.
struct Whereabouts {
  std::string host;    ///< "": not known
  bool typed = false;  ///< a shell that somebody types into has started it, not Slurm
};

/// Errc::environment with one line that names the variables when they are half-set, malformed or contradict each
/// other (a container that passes only some of them on, a variable set by hand).
[[nodiscard]] Result<SlurmView> read_slurm(Environment const& environment, Whereabouts const& here = {});

/// Errc::environment where all of Slurm's variables were lost on the way to this process: slurmstepd started it, but it
/// knows of no job. Nothing then tells it of other nodes, so each would run a job of its own. A job the user describes
/// needs none, nor does one below a worker of another cxxrun. `find_ancestor` is os::find_ancestor, and asked only
/// where it matters.
[[nodiscard]] std::optional<Error> lost_slurm(Options const& options, Environment const& environment,
                                              std::function<std::optional<int>(std::string_view)> const& find_ancestor);

}  // namespace cxxrun::launcher
