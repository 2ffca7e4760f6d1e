#include "src/store/store_listen.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

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

// A listening descriptor, or -1 and errno.
int listen_on(int family, std::uint16_t port, bool loopback) {
  int const fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return -1;
  }
  int const on = 1;
  int const v6_only = loopback ? 1 : 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accepted sockets inherit it
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);  // and this one
  if (family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  Address const a = address_of(family, port, loopback);
  socklen_t const length = family == AF_INET6 ? sizeof a.v6 : sizeof a.v4;
  if (::bind(fd, &a.any, length) == 0 && ::listen(fd, kBacklog) == 0) {
    return fd;
  }
  int const why = errno;
  ::close(fd);
  errno = why;
  return -1;
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
  int fd = listen_on(AF_INET6, port, false);
  if (fd < 0 && no_such_family(errno)) {
    fd = listen_on(AF_INET, port, false);
  }
  if (fd < 0) {
    return cannot_listen(port, errno);
  }
  return StoreListeners{{fd}, os::port_of(fd)};
}

Result<StoreListeners> listen_on_loopback(std::uint16_t wanted) {
  for (int tries = 0; tries < kLoopbackTries; ++tries) {
    int const v4 = listen_on(AF_INET, wanted, true);
    if (v4 < 0) {
      return cannot_listen(wanted, errno);
    }
    std::uint16_t const port = os::port_of(v4);
    int const v6 = listen_on(AF_INET6, port, true);
    if (v6 >= 0) {
      return StoreListeners{{v4, v6}, port};
    }
    if (no_such_family(errno)) {
      return StoreListeners{{v4}, port};
    }
    int const why = errno;
    ::close(v4);
    if (wanted != 0 || why != EADDRINUSE) {
      return cannot_listen(wanted, why);
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
  Address to{};
  socklen_t size = sizeof from;
  int const fd = ::accept4(listener, &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    return {};
  }
  size = sizeof to;
  ::getsockname(fd, &to.any, &size);
  return {fd, {os::tcp_end_of(&from.any), os::tcp_end_of(&to.any)}};
}

bool is_established(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_ESTABLISHED;
}

}  // namespace cxxrun::store
