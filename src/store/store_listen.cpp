#include "src/store/store_listen.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "src/os/fd.hpp"
#include "src/os/local_address.hpp"

namespace cxxrun::store {
namespace {

constexpr int kBacklog = 4096;      // the kernel lowers it to net.core.somaxconn
constexpr int kLoopbackTries = 16;  // how often a port that is free on 127.0.0.1 may be taken on ::1

union Address {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

Address address_of(int family, std::uint16_t port, bool loopback) {
  Address a{};
  if (family == AF_INET6) {
    a.v6.sin6_family = AF_INET6;
    a.v6.sin6_port = htons(port);
    a.v6.sin6_addr = loopback ? in6addr_loopback : in6addr_any;
  } else {
    a.v4.sin_family = AF_INET;
    a.v4.sin_port = htons(port);
    a.v4.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
  }
  return a;
}

// None and errno when it cannot listen there.
os::UniqueFd listen_on(int family, std::uint16_t port, bool loopback) {
  os::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fd;
  }
  int const on = 1;
  int const v6_only = loopback ? 1 : 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accepted sockets inherit it
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);  // and this one
  if (family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  Address const a = address_of(family, port, loopback);
  socklen_t const length = family == AF_INET6 ? sizeof a.v6 : sizeof a.v4;
  if (::bind(fd.get(), &a.any, length) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    fd.reset();
  }
  return fd;
}

bool no_such_family(int error) {
  return error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EPROTONOSUPPORT;
}

Error cannot_listen(std::uint16_t port, int error) {
  if (error == EADDRINUSE && port != 0) {
    return fail(Errc::in_use,
                "store port " + std::to_string(port) + " is taken by another program; choose another one or 0", error);
  }
  Errc const code = error == EACCES ? Errc::permission : Errc::io;
  return fail(code, "store cannot listen on port " + std::to_string(port), error);
}

Result<StoreListeners> listen_everywhere(std::uint16_t port) {
  os::UniqueFd fd = listen_on(AF_INET6, port, false);
  if (!fd && no_such_family(errno)) {
    fd = listen_on(AF_INET, port, false);
  }
  if (!fd) {
    return cannot_listen(port, errno);
  }
  auto const bound = os::port_of(fd.get());
  return StoreListeners{{fd.release()}, bound};
}

Result<StoreListeners> listen_on_loopback(std::uint16_t wanted) {
  for (int tries = 0; tries < kLoopbackTries; ++tries) {
    os::UniqueFd v4 = listen_on(AF_INET, wanted, true);
    if (!v4) {
      return cannot_listen(wanted, errno);
    }
    std::uint16_t const port = os::port_of(v4.get());
    os::UniqueFd v6 = listen_on(AF_INET6, port, true);
    if (v6) {
      return StoreListeners{{v4.release(), v6.release()}, port};
    }
    if (no_such_family(errno)) {
      return StoreListeners{{v4.release()}, port};
    }
    if (wanted != 0 || errno != EADDRINUSE) {
      return cannot_listen(wanted, errno);
    }
  }
  return cannot_listen(wanted, EADDRINUSE);
}

}  // namespace

Result<StoreListeners> listen_for_store(StoreBind const& where) {
  return where.loopback_only ? listen_on_loopback(where.port) : listen_everywhere(where.port);
}

Accepted accept_for_store(int listener) {
  Address from{};
  socklen_t size = sizeof from;
  int const fd = ::accept4(listener, &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    return {};
  }
  return {fd, {os::tcp_end_of(&from.any), os::own_end(fd)}};
}

bool is_established(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_ESTABLISHED;
}

}  // namespace cxxrun::store
