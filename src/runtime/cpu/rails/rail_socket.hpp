// The ranks of a rail, their addresses, and sockets with the options that rails need. Shell.
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

/// The rank at the other end.
struct RailPeer {
  int rank = 0;
  std::string host;
  StoreAddress address;  ///< where it listens; not used for this rank itself
  bool alone = true;     ///< it is the only rank of this communicator on its node
};

struct RailConfig {
  int node = 0;                 ///< index of this rank in `peers`
  std::vector<RailPeer> peers;  ///< by node, including this rank
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;  ///< identifies this communicator; the same on all ranks, so callers without it are rejected
  /// A host that answers nothing for this long is lost; at least 4 s.
  Millis silence = std::chrono::seconds(15);
  bool are_coming = false;  ///< a rank that does not come is a PeerFailure (timeout)
};

/// A listening socket for the ranks of other nodes.
struct RailListener {
  os::UniqueFd fd;
  StoreAddress address;
  std::unique_ptr<worker::RailProver> prover{};  ///< null: a peer that knows the nonce is trusted
};

/// Starts to connect to a literal address; poll(2) tells when it is done.
[[nodiscard]] Result<os::UniqueFd> begin_connect(StoreAddress const& address);

/// Sets options for data: no delay, and keepalive, so that firewalls between the hosts do not drop an idle connection.
void prepare_data(int fd);
/// The same, and makes the socket fail with ETIMEDOUT if the other host has not answered for `silence`. Only for
/// connections with little data: Linux also counts a peer that does not read as silent, and a rank may be busy for
/// minutes before it reads.
void prepare_control(int fd, Millis silence);

/// Opens a listening TCP socket at an ephemeral port of `host` (a literal address). Throws Failure.
[[nodiscard]] RailListener listen_for_rails(std::string const& host);

}  // namespace cxxrun::host
