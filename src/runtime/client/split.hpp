// split: from a Communicator to the backend of a group of its ranks. Shell.
//
// The ranks tell each other of themselves in collectives of the Communicator that is split. The store is not needed:
// it may have ended with the process that hosted it.
#pragma once

#include <functional>

#include "src/base/core/call.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/client/entrance.hpp"
#include "src/runtime/comm/grouping.hpp"

namespace cxxrun::client {

/// The Communicator that is split.
struct Whole {
  std::function<void(comm::Call const&)> run;
  std::function<void()> face_trouble;  ///< throws what the next call will, as far as that is known without one
  int rank = 0;
  int size = 1;
  std::shared_ptr<Family> family;
  worker::Recorder recorder;  ///< of what is not counted
};

/// Collective over `whole`. Joined of this rank's group, without a backend when it wants none. Throws what `run` does;
/// Failure on all ranks, with the same text, when something is wrong with one of them. Who does not come to the group
/// then is given up like one that is missing in a call. What is thrown for that ends the family, for members of the
/// same group may wait for this rank.
[[nodiscard]] Joined split(WorkerEnv const& world, JoinOptions const& options, Whole const& whole, comm::Wish wish);

}  // namespace cxxrun::client
