// Listening sockets on every address of this machine, or on its loopback addresses alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/tcp_ends.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

struct ListenAt {
  std::uint16_t port = 0;      ///< 0: the kernel chooses
  bool loopback_only = false;  ///< 127.0.0.1 and ::1 instead of every address; whichever of them the machine has
};

/// Bound, listening, non-blocking sockets on one port, close-on-exec from birth.
struct Listening {
  std::vector<UniqueFd> sockets;  ///< one for IPv4 and IPv6, or one for each loopback address, 127.0.0.1 first
  std::uint16_t port = 0;
};

/// Errors: in_use, permission, io; the context is the port alone.
[[nodiscard]] Result<Listening> listen_at(ListenAt const& where);

/// The loopback addresses by which this machine reaches itself, 127.0.0.1 first; none when the interface is down.
[[nodiscard]] std::vector<std::string> loopback_addresses();

/// The next waiting connection.
struct Accepted {
  int fd = -1;  ///< non-blocking and close-on-exec; -1 and errno when there is none
  TcpEnds ends;
};
[[nodiscard]] Accepted accept_next(int listener);

/// Whether this end of a connection stands: neither side has ended it.
[[nodiscard]] bool is_established(int socket);

}  // namespace cxxrun::os
