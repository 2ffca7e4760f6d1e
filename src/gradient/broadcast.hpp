// Broadcast of many tensors in few calls.
#pragma once

#include <span>

#include "cxxrun/gradient_synchronizer.hpp"

namespace cxxrun::gradient {

/// Collective. Small tensors travel together, large ones by themselves and without a copy of ours. Failure (usage) when
/// ranks give other tensors or another root, or when there is no such rank.
void broadcast_tensors(Communicator& comm, std::span<Tensor const> tensors, int root);

}  // namespace cxxrun::gradient
