// Loss: the peer that a worker's Communicator gave up, and why. A value.
#pragma once

#include <cstdint>

#include "cxxrun/failure.hpp"

namespace cxxrun::worker {

/// What PeerFailure says of a peer; never of a generation that the launcher ended.
struct Loss {
  std::uint32_t rank = 0;
  PeerFailure::Why why = PeerFailure::Why::died;
  bool operator==(Loss const&) const = default;
};
/// Of a worker that waits for another generation although nobody has told it that its own is over, and names no peer:
/// no rank.
inline constexpr Loss kNamesNobody{0xffff'ffffU, PeerFailure::Why::timeout};

}  // namespace cxxrun::worker
