// JobSearch: the jobs of this user that answer: on this node, or where Slurm says that they run. Shell.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include "launcher/live/question.hpp"
#include "launcher/view/agents.hpp"
#include "launcher/view/relay.hpp"
#include "launcher/view/table.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::launcher::view {

/// A job of this user.
struct Job {
  Who who;
  AgentSocket agent;               ///< on this node, or:
  std::shared_ptr<Program> relay;  ///< where its agent is
  std::size_t index = 0;           ///< its number there
};

constexpr Millis kForWho{1000};  // time limit for: which job does an agent run

/// The jobs on this node that `wanted` means, one per run; "" = all.
struct FoundJobs {
  std::vector<Job> jobs;
  std::set<pid_t> silent;  ///< agents that do not answer
};
[[nodiscard]] FoundJobs find_jobs(std::string const& wanted);

/// Starts this program with srun on a node of the job that Slurm calls so; "" = the only one of this user that runs.
/// Errors: environment (Slurm cannot be asked about it from here), not_found (no such job), usage (several), closed
/// (none of its nodes answers).
[[nodiscard]] Result<std::vector<Job>> find_jobs_elsewhere(std::string const& wanted);

/// Asks the job, and returns the answer. Errors: as `ask` of agents.hpp.
[[nodiscard]] Result<std::string> ask(Job const& job, live::Question const& question);

/// An answer to `follow`, which goes on while the program does something else: what comes meanwhile waits in the
/// kernel, also when the agent has ended.
class EventStream {
 public:
  /// Its next lines, or after its end those of the answer to `question`. Blocks until there are some. Errors: as `ask`.
  [[nodiscard]] Result<std::string> next(Job const& job, live::Question const& question);

 private:
  os::UniqueFd connection_;
  std::string rest_;  ///< the begin of a line
};

/// Answers the questions that come in at standard input (relay.hpp), until it ends.
void serve_relay(std::vector<Job> const& jobs);

}  // namespace cxxrun::launcher::view
