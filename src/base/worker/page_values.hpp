// Values of a worker's ControlPage that messages pass on. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cxxrun/failure.hpp"

namespace cxxrun::worker {

/// How many groups a page has room for.
inline constexpr std::size_t kGroups = 16;

/// How many collectives a worker has begun in one of its groups, as PyTorch numbers them.
struct GroupCount {
  std::uint64_t id = 0;     ///< the same for all members; no other group of theirs has it
  std::uint64_t begun = 0;  ///< to compare with other members only: PyTorch 1 does not start at 0
  std::uint64_t size = 0;   ///< members
  bool operator==(GroupCount const&) const = default;
};

/// Changes whenever the worker begins a collective, in any group.
[[nodiscard]] inline std::uint64_t begun_in_all(std::uint64_t entered, std::vector<GroupCount> const& groups) {
  for (auto const& each : groups) {
    entered += each.begun;
  }
  return entered;
}

/// The peer that a worker's Communicator gave up, and why: what PeerFailure says of a peer, never of a generation that
/// the launcher ended.
struct Loss {
  std::uint32_t rank = 0;
  PeerFailure::Why why = PeerFailure::Why::died;
  bool operator==(Loss const&) const = default;
};
/// Of a worker that waits for another generation and names no peer, although it was not told that its own is over.
/// The rank is none.
inline constexpr Loss kNamesNobody{0xffff'ffffU, PeerFailure::Why::timeout};

}  // namespace cxxrun::worker
