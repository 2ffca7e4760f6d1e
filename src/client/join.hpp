// join: from an environment to a connected backend. Shell.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxxrun/communicator.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/client/interruption.hpp"
#include "src/client/local_facts.hpp"
#include "src/host/common/backend.hpp"

namespace cxxrun::client {

struct Joined {
  std::unique_ptr<host::Backend> backend;
  std::vector<std::string> hosts;  ///< by rank
};

struct JoinOptions : Communicator::Options {
  Lookup lookup = worker::own_variables();  ///< what the generation's variables are
  std::shared_ptr<Interruption> over = {};  ///< raised when the generation is over; null: never
};

/// Meets the other ranks, fetches the memory that the node shares and connects the rails; alone it does nothing of
/// that. Chooses the backend and opens its device first. Blocks until everybody is there, at most about `init_timeout`.
/// Throws Failure, and PeerFailure for a rank that has come and died on the way. What it throws once `over` is raised
/// can be either and of any kind.
[[nodiscard]] Joined join(WorkerEnv const& env, JoinOptions const& options);

}  // namespace cxxrun::client
