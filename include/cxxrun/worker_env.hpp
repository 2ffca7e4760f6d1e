// WorkerEnv: the place of this process among the workers of the job, read from its environment.
//
// cxxrun sets the variables that torchrun sets, and a few of its own. A program that reads them through WorkerEnv runs
// under cxxrun, under torchrun, and alone: started by hand, with none of the variables set, it is a world of one and
// needs no store.
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
  int rank = 0;              ///< RANK: number among all workers, 0 … world_size - 1
  int world_size = 1;        ///< WORLD_SIZE: workers of this generation; another generation may have more or fewer
  int local_rank = 0;        ///< LOCAL_RANK: number among the workers of this node; the index of the GPU to use
  int local_world_size = 1;  ///< LOCAL_WORLD_SIZE: workers on this node
  int group_rank = 0;        ///< GROUP_RANK: number of this node among the nodes
  int group_world_size = 1;  ///< GROUP_WORLD_SIZE: number of nodes

  /// CXXRUN_GENERATION: grows by one whenever the job re-forms, for any reason; the same on every node.
  /// 0 under other launchers, which have no such number.
  std::uint64_t generation = 0;
  /// TORCHELASTIC_RESTART_COUNT: number of restarts after failures. The same on every node under cxxrun; torchrun
  /// counts per node.
  int restart_count = 0;
  /// TORCHELASTIC_RUN_ID: identifies the job; empty without a launcher.
  std::string run_id;

  /// CXXRUN_STORE_ADDR and CXXRUN_STORE_PORT, else MASTER_ADDR and MASTER_PORT: the store of this generation.
  /// Empty in a world of one without a launcher.
  std::optional<StoreAddress> store;
  /// Whether rank 0 has to host the store, which Communicator::init does. True without CXXRUN_STORE_ADDR, unless
  /// TORCHELASTIC_USE_AGENT_STORE is True: there is no launcher, or it leaves MASTER_PORT to rank 0.
  bool store_unserved = false;

  bool operator==(WorkerEnv const&) const = default;

  /// Reads the environment of this process. Call it before starting threads that change the environment.
  ///
  /// If none of RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE is set: a world of one. Otherwise all four must be
  /// set and consistent; the other variables default to one node, no restarts and no run id. The two LOCAL_ variables
  /// may be missing under srun, Open MPI or MPICH if RANK and WORLD_SIZE equal the numbers of that launcher: then its
  /// own variables are used.
  /// Errors: environment (names the variable and its value).
  [[nodiscard]] static Result<WorkerEnv> from_environment();

  /// The same with the caller's look-up function, which returns null for a variable that is not set; for tests.
  [[nodiscard]] static Result<WorkerEnv> from(std::function<char const*(char const*)> const& lookup);
};

}  // namespace cxxrun
