// The ranks of a rail, where each listens, and sockets as rails want them. Shell.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/worker/rail_prover.hpp"

namespace cxxrun::host {

/// Who stands at the other end.
struct RailPeer {
  int rank = 0;
  std::string host;
  StoreAddress address;  ///< where it listens; meaningless for this rank itself
  bool alone = true;     ///< no other rank of this communicator is on its node
};

struct RailConfig {
  int node = 0;                 ///< this rank's place in `peers`
  std::vector<RailPeer> peers;  ///< by node, this rank included
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;  ///< of this communicator, the same on all ranks: strangers are turned away by it
  /// A host that answers nothing for so long is lost; at least 4 s.
  Millis silence = std::chrono::seconds(15);
  bool are_coming = false;  ///< who does not is a PeerFailure (timeout)
};

/// Listens for the ranks of other nodes.
struct RailListener {
  os::UniqueFd fd;
  StoreAddress address;
  std::unique_ptr<RailProver> prover{};  ///< none: who knows the nonce is taken for whom it says it is
};

/// Starts to connect to a literal address; poll(2) says when it is done.
[[nodiscard]] Result<os::UniqueFd> begin_connect(StoreAddress const& address);

/// Sends at once. It may be idle for long, and what stands between the hosts must not forget it.
void prepare_data(int fd);
/// The same, and gives an error (ETIMEDOUT) when the other host has answered nothing for `silence`. Only for
/// connections on which little is sent: Linux counts a peer that does not read as silent, and a rank may be busy for
/// minutes before it reads.
void prepare_control(int fd, Millis silence);

/// A listening TCP socket at an ephemeral port of `host` (a literal address). Throws Failure.
[[nodiscard]] RailListener listen_for_rails(std::string const& host);

}  // namespace cxxrun::host
