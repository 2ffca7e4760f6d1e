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

}  // namespace cxxrun::worker
