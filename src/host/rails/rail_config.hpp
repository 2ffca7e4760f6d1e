// RailConfig: the ranks of a rail, and where each listens.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/store.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::host {

/// Who stands at the other end.
struct RailPeer {
  int rank = 0;
  std::string host;
  StoreAddress address;  ///< where it listens; meaningless for this rank itself
};

struct RailConfig {
  int node = 0;                 ///< this rank's place in `peers`
  std::vector<RailPeer> peers;  ///< by node, this rank included
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;  ///< of this communicator, the same on all ranks: strangers are turned away by it
  /// A host that answers nothing for so long is lost; at least 4 s.
  std::chrono::milliseconds silence = std::chrono::seconds(15);
};

/// Listens for the ranks of other nodes.
struct RailListener {
  os::UniqueFd fd;
  StoreAddress address;
};

}  // namespace cxxrun::host
