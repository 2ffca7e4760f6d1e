// TCP sockets: listening on every address of this machine or on its loopback addresses, accepting, and ports for a host
// whose ports are used up. Shell.
#pragma once

#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/tcp_ends.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

struct ListenAt {
  std::uint16_t port = 0;      ///< 0: the kernel chooses
  bool loopback_only = false;  ///< only 127.0.0.1 and ::1, as far as the machine has them
};

/// Bound, listening, non-blocking sockets on one port, close-on-exec from birth.
struct Listening {
  std::vector<UniqueFd> sockets;  ///< one for IPv4 and IPv6, or one for each loopback address, 127.0.0.1 first
  std::uint16_t port = 0;
};

/// Errors: in_use, permission, io. The context names only the port.
[[nodiscard]] Result<Listening> listen_at(ListenAt const& where);

/// The loopback addresses by which this machine reaches itself, 127.0.0.1 first; none when the interface is down.
[[nodiscard]] std::vector<std::string> loopback_addresses();

/// The next waiting connection.
struct Accepted {
  int fd = -1;  ///< non-blocking and close-on-exec; -1 and errno when there is none
  TcpEnds ends;
};
[[nodiscard]] Accepted accept_next(int listener);

/// Whether the connection is established: neither side has ended it.
[[nodiscard]] bool is_established(int socket);

/// The standby socket, where other nodes call an agent that has to take over from the coordinator. It is opened before
/// the fork, so that agent and parent both hold it (docs/design/supervision.md). It listens on a port that the kernel
/// chooses: on every address, or only on the given loopback address (on the other one if the machine lacks it).
/// Errc::io.
[[nodiscard]] Result<UniqueFd> open_standby(std::string const& loopback = "");

/// Keeps a port of 127.0.0.1 for this user's processes without listening there: while the socket is open, only they can
/// listen, and only with SO_REUSEPORT. -1 and errno where there is no such port.
[[nodiscard]] UniqueFd keep_loopback_port();

// Another user may take all ports that the kernel hands out (ip_local_port_range). These functions then use a port
// outside that range. Those that bind return -1 with errno, as bind(2) does.

/// Binds to a spare port of that address.
int bind_to_spare_port(int fd, sockaddr const* at, socklen_t size);

/// bind(2). If `at` leaves the port to the kernel and the kernel has none free, to a spare port.
int bind_somewhere(int fd, sockaddr const* at, socklen_t size);

/// A non-blocking socket that begins to connect there; poll(2) tells when it is done. Errors: io, closed.
[[nodiscard]] Result<UniqueFd> begin_connect(sockaddr const* to, socklen_t size);
/// How that ended: 0 or an error number. Asking clears it.
[[nodiscard]] int connect_error(int socket);

}  // namespace cxxrun::os
