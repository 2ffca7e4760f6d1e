// SocketOwners: asks the kernel whose a TCP socket of this host is, of whichever user. Needs no privilege.
//
// By INET_DIAG, of the one socket with these two ends; where a kernel or a container has none, from /proc/net/tcp.
// Knows the sockets of its own network namespace. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/tcp_ends.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

class SocketOwners {
 public:
  /// Tries it on a socket of its own. Errors: unsupported, in words that go on behind "cannot tell whose a connection
  /// is: ".
  static Result<SocketOwners> open();
  /// For each connection the socket at the caller's end, when it is here.
  [[nodiscard]] std::vector<std::optional<SeenSocket>> find(std::vector<TcpEnds> const& connections);
  /// Whether one connection costs microseconds: else all of the host's are read for it.
  [[nodiscard]] bool quick() const { return static_cast<bool>(netlink_); }
  /// As whom the kernel shows this process's sockets.
  [[nodiscard]] std::uint32_t own() const { return own_; }

 private:
  SocketOwners() = default;
  bool finds(int listener);

  UniqueFd netlink_;  ///< none: /proc/net/tcp has to do
  std::uint32_t own_ = 0;
};

}  // namespace cxxrun::os
