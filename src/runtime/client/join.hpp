// join: from an environment to a connected backend. Shell.
#pragma once

#include "src/runtime/client/entrance.hpp"

namespace cxxrun::client {

/// Meets the other ranks, fetches the memory that the node shares and connects the rails; alone it does nothing of
/// that. Chooses the backend and opens its device first. Blocks until everybody is there, at most about `init_timeout`.
/// Throws Failure, and PeerFailure for a rank that has come and died on the way. What it throws once `over` is raised
/// can be either and of any kind.
[[nodiscard]] Joined join(WorkerEnv const& env, JoinOptions const& options);

}  // namespace cxxrun::client
