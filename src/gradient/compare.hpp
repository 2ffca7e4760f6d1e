// Compare: all ranks show each other a list, and either have the same one or all throw the same Failure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cxxrun/communicator.hpp"

namespace cxxrun::gradient {

/// Collective. Failure (usage) naming the first item that is not the same on every rank, as rank 0 and as the first
/// rank that differs have it, and `advice`. 8 bytes per rank when all is well.
void require_same(Communicator& comm, std::span<std::string const> items, std::string_view advice);

/// "rank 2 on node1".
[[nodiscard]] std::string name_of_rank(Communicator const& comm, int rank);

}  // namespace cxxrun::gradient
