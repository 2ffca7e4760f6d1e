// join, split: from an environment, or from a Communicator, to the connected backend of a world or a group. Shell.
//
// Both prepare what a rank needs alone, exchange records, and connect a backend from the records of all. join()
// exchanges them in the store (Bootstrap); split() in collectives of the Communicator that is split, because the store
// may have ended together with the process that hosted it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cxxrun/communicator.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/base/core/call.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/client/group_registry.hpp"
#include "src/runtime/client/interruption.hpp"
#include "src/runtime/client/local_facts.hpp"
#include "src/runtime/comm/node_map.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/waiting.hpp"

namespace cxxrun::client {

struct JoinResult {
  std::shared_ptr<GroupRegistry> registry{};
  std::unique_ptr<host::Backend> backend{};  ///< wrapped by the registry
  int rank = 0;
  std::vector<std::string> hosts{};  ///< by rank
  std::vector<int> names{};          ///< by rank: its rank in the world, as in messages
};

struct JoinOptions : Communicator::Options {
  Lookup lookup = worker::own_variables();  ///< the variables of the generation
  std::shared_ptr<Interruption> over = {};  ///< raised when the generation is over; null: never
  std::shared_ptr<host::EarlyGiveUp> early_give_up =
      std::make_shared<host::EarlyGiveUp>();  ///< requested when others wait for this process
};

/// Chooses the backend and opens its device, meets the other ranks, fetches the memory that the node shares, and
/// connects the rails; a world of one only does the first. Blocks until every rank is there, for at most about
/// `init_timeout`. Throws Failure, and PeerFailure for a rank that died after it had come. Once `over` is raised, it
/// may throw either, for any reason.
[[nodiscard]] JoinResult join(WorkerEnv const& env, JoinOptions const& options);

/// The Communicator that is split.
struct SplitParent {
  std::function<void(comm::Call const&)> run;
  std::function<void()> throw_trouble;  ///< throws what the next call would throw, if that is known without a call
  int rank = 0;
  int size = 1;
  std::shared_ptr<GroupRegistry> registry;
  worker::Recorder recorder;  ///< for time that no counted call covers
};

/// Collective over `parent`. Returns the JoinResult of this rank's group; without a backend if it wants no group.
/// Throws what `run` throws; if something is wrong with one rank, Failure on all ranks with the same text. A rank that
/// then does not come to the group is given up like a rank missing in a call. Such a failure ends the registry's
/// groups, because other members of the same group may wait for this rank.
[[nodiscard]] JoinResult split(WorkerEnv const& world, JoinOptions const& options, SplitParent const& parent,
                               comm::Wish wish);

}  // namespace cxxrun::client
