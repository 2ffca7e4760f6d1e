// The listening sockets of a store: raw descriptors, close-on-exec from birth.
#pragma once

#include <cstdint>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/core/tcp_ends.hpp"

namespace cxxrun::store {

/// Where a store listens.
struct StoreBind {
  std::uint16_t port = 0;      ///< 0: the kernel chooses
  bool loopback_only = false;  ///< 127.0.0.1 (and ::1) instead of every address, IPv4 and IPv6
};

/// Bound, listening, non-blocking sockets on one port. The caller closes them.
struct StoreListeners {
  std::vector<int> sockets;  ///< one dual-stack socket, or one per loopback address
  std::uint16_t port = 0;
};

/// Binds and listens. Errors: in_use naming the port, permission, io.
Result<StoreListeners> listen_for_store(StoreBind const& where);

/// The next waiting connection.
struct Accepted {
  int fd = -1;  ///< non-blocking and close-on-exec; -1 and errno when there is none
  TcpEnds ends;
};
Accepted accept_for_store(int listener);

/// Whether this end of a connection stands: neither side has ended it.
bool is_established(int socket);

}  // namespace cxxrun::store
