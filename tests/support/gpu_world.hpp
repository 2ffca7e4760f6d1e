// Ranks with a Communicator on NCCL, in which the double stands in for CUDA and NCCL. Its device memory is the host's.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>

#include "tests/support/comm_world.hpp"

namespace cxxrun::test {

inline constexpr std::size_t kCount = 1000;  // values of a collective

/// In the child that is a rank, before it joins: what the double does.
inline void use_double(std::string const& script, char const* backend = "nccl") {
  setenv("CXXRUN_CUDA_PLUGIN", CXXRUN_CUDA_PLUGIN, 1);
  setenv("CXXRUN_CUDA_DOUBLE", script.c_str(), 1);
  setenv("CXXRUN_BACKEND", backend, 1);
}

/// Joins as rank `rank`; which ranks share a node is said by `nodes`, and each has a device of its own.
inline Communicator init_on_device(ForkedStore const& store, int rank, std::string const& nodes,
                                   std::string const& script = "devices=4", Communicator::Options options = {},
                                   char const* backend = "nccl") {
  use_double(script, backend);
  setenv("RANK", std::to_string(rank).c_str(), 1);
  return init(store, rank, nodes, options);
}

}  // namespace cxxrun::test
