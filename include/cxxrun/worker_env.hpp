// WorkerEnv: who this process is among the workers of the job, read from its environment.
//
// cxxrun sets the variables that torchrun sets, and a few of its own. A program that reads them through
// WorkerEnv runs under cxxrun, under torchrun, and alone: started by hand, with none of them set, it is a world
// of one and needs no store.
#pragma once

#include "cxxrun/version.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"

namespace cxxrun {

/// A plain value; copy it freely. Ranks count from 0.
struct WorkerEnv {
  int rank = 0;              ///< RANK: among all workers, 0 … world_size - 1
  int world_size = 1;        ///< WORLD_SIZE: workers of this generation; another generation may have more or fewer
  int local_rank = 0;        ///< LOCAL_RANK: among the workers of this node; the index of the GPU to use
  int local_world_size = 1;  ///< LOCAL_WORLD_SIZE: workers on this node
  int group_rank = 0;        ///< GROUP_RANK: of this node among the nodes
  int group_world_size = 1;  ///< GROUP_WORLD_SIZE: nodes

  /// CXXRUN_GENERATION: grows by one whenever the job re-forms, whatever the cause; the same on every node.
  /// 0 under other launchers, which have no such number.
  std::uint64_t generation = 0;
  /// TORCHELASTIC_RESTART_COUNT: how many restarts failures have used up. The same on every node under cxxrun;
  /// torchrun counts per node.
  int restart_count = 0;
  /// TORCHELASTIC_RUN_ID: names the job; empty when it runs alone.
  std::string run_id;

  /// CXXRUN_STORE_ADDR and CXXRUN_STORE_PORT, else MASTER_ADDR and MASTER_PORT: the store of this generation.
  /// Nothing in a world of one without a launcher.
  std::optional<StoreAddress> store;
  /// Nobody listens there until rank 0 does (Communicator::init sees to it): MASTER_PORT under a launcher that leaves
  /// it to rank 0, or under none. So without CXXRUN_STORE_ADDR, unless TORCHELASTIC_USE_AGENT_STORE is True.
  bool store_unserved = false;

  bool operator==(WorkerEnv const&) const = default;

  /// Reads the environment of this process. Call it before starting threads that change the environment.
  ///
  /// With none of RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE set: a world of one. With some of them: RANK,
  /// WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE must be there and agree, the others default to one node, no
  /// restarts and no name. The two LOCAL_ ones may be left to what srun, Open MPI or MPICH set in a step whose ranks
  /// are these. Errors: environment, naming the variable and what it holds.
  [[nodiscard]] static Result<WorkerEnv> from_environment();

  /// The same with a look-up function of the caller's (null: not set), for tests.
  [[nodiscard]] static Result<WorkerEnv> from(std::function<char const*(char const*)> const& lookup);
};

}  // namespace cxxrun
