// Desync report: what ranks tell each other when a device call did not end in time, and what follows from it. Pure.
//
// NCCL does not say whose fault it is when a call hangs. So every rank that gives up tells which of its calls is the
// oldest one under way; who does not report is late, and is named by the host backend. When all have come,
// the reports say whether they were in the same call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/comm/call.hpp"

namespace cxxrun::gpu {

/// Travels between processes as it is.
struct CallReport {
  std::uint64_t number = 0;  ///< of the oldest call that is under way, from 1; 0: none is
  std::uint64_t made = 0;    ///< calls this rank has made
  comm::CallFields call{};   ///< that one
};

/// The sentence for the Failure that all ranks throw. `names`: "rank 2 on node1", by rank.
[[nodiscard]] std::string verdict(std::span<CallReport const> ranks, std::vector<std::string> const& names,
                                  std::string const& patience);

}  // namespace cxxrun::gpu
