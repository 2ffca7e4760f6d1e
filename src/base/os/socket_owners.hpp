// SocketOwners: asks the kernel which user owns a TCP socket of this host. Needs no privilege. Shell.
//
// Uses INET_DIAG for the socket with these two ends, or /proc/net/tcp where a kernel or a container lacks that. Knows
// the sockets of its own network namespace only. Not thread-safe.
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
  /// Tries it on a socket of its own. Errors: permission or io; the context follows "cannot tell whose a connection is:
  /// ".
  static Result<SocketOwners> open();
  /// For each connection the socket at the caller's end, if it is on this host.
  [[nodiscard]] std::vector<std::optional<SeenSocket>> find(std::vector<TcpEnds> const& connections);
  /// Whether a lookup takes microseconds. Otherwise it reads all sockets of the host.
  [[nodiscard]] bool quick() const { return static_cast<bool>(netlink_); }
  /// The user id under which the kernel shows this process's sockets.
  [[nodiscard]] std::uint32_t own() const { return own_; }

 private:
  SocketOwners() = default;
  bool finds(int listener);

  UniqueFd netlink_;  ///< none: use /proc/net/tcp
  std::uint32_t own_ = 0;
};

}  // namespace cxxrun::os
