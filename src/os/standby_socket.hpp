// The standby socket: where an agent can be called once it has to take over from the coordinator. Opened before the
// fork: agent and parent hold it (docs/design/supervision.md).
#pragma once

#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>

#include "cxxrun/error.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::os {

/// A listening socket on every address, on a port that the kernel chooses (IPv6 and IPv4 in one where the machine has
/// IPv6), or on 127.0.0.1 alone. Errc::io.
[[nodiscard]] inline Result<UniqueFd> open_standby(bool loopback_only = false) {
  auto const listens = [](UniqueFd const& fd, auto const& where) {
    constexpr int kBacklog = 4096;
    return bind(fd.get(), reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0 &&
           listen(fd.get(), kBacklog) == 0;
  };
  int const off = 0;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!loopback_only && fd && setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
      listens(fd, v6)) {
    return fd;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = loopback_only ? htonl(INADDR_LOOPBACK) : INADDR_ANY;
  fd.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && listens(fd, v4)) {
    return fd;
  }
  return fail(Errc::io, "no socket to take over with", errno);
}

}  // namespace cxxrun::os
