#include "src/runtime/cpu/rails/rail_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "cxxrun/failure.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/tcp_sockets.hpp"

namespace cxxrun::host {
namespace {

Result<os::Addresses> literal(StoreAddress const& address) {
  auto found = os::resolve(address.host, address.port, SOCK_STREAM, AI_NUMERICHOST);
  return found ? std::move(found) : fail(Errc::usage, "\"" + address.host + "\" is not an IPv4 or IPv6 address");
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

/// Disables Nagle's delay, and probes every `pause` seconds whether the other host is alive.
void send_at_once(int fd, int pause) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
}

}  // namespace

Result<os::UniqueFd> begin_connect(StoreAddress const& address) {
  auto const found = literal(address);
  if (!found) {
    return found.error();
  }
  return os::begin_connect((*found)->ai_addr, (*found)->ai_addrlen);
}

// No limit on unacknowledged data: a peer that computes for a long time reads nothing and is still alive.
void prepare_data(int fd) {
  send_at_once(fd, 60);
}

// Keepalive probes are sent while the connection is idle; TCP_USER_TIMEOUT covers a farewell that is not acknowledged.
void prepare_control(int fd, Millis silence) {
  constexpr int kProbes = 3;
  auto const pause = std::chrono::duration_cast<std::chrono::seconds>(silence / (kProbes + 1)).count();
  send_at_once(fd, static_cast<int>(std::max<std::int64_t>(pause, 1)));
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
}

RailListener listen_for_rails(std::string const& host) {
  auto const found = or_throw(literal({host, 0}));
  os::UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || os::bind_somewhere(fd.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(fd.get(), SOMAXCONN) != 0) {
    throw Failure(fail(Errc::io, "cannot listen at " + host + " for the ranks of other nodes", errno));
  }
  std::uint16_t const port = os::port_of(fd.get());
  return {std::move(fd), {host, port}, {}};
}

}  // namespace cxxrun::host
