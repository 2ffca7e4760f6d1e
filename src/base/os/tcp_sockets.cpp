#include "src/base/os/tcp_sockets.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <utility>

#include "src/base/core/ports.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::os {
namespace {

constexpr int kBacklog = 4096;      // the kernel lowers it to net.core.somaxconn
constexpr int kLoopbackTries = 16;  // a port that is free on 127.0.0.1 may be taken on ::1: try so often

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

socklen_t length_of(int family) {
  return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

// None with errno when it cannot listen there.
UniqueFd listen_on(int family, std::uint16_t port, bool loopback) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fd;
  }
  int const on = 1;
  int const v6_only = loopback ? 1 : 0;
  // Not for a port that the kernel chooses: should we be killed, the rest of our connections then keeps other processes
  // from taking a port that our workers know.
  if (port != 0) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  }
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accepted sockets inherit it
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);  // and this one
  if (family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  Address const a = address_of(family, port, loopback);
  if (bind_somewhere(fd.get(), &a.any, length_of(family)) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    int const error = errno;
    fd.reset();
    errno = error;
  }
  return fd;
}

/// EPERM comes from a container's filter, which may answer anything. A port that needs privileges gives EACCES.
bool no_such_family(int error) {
  return error == EPERM || error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EPROTONOSUPPORT;
}

Error cannot_listen(std::uint16_t port, int error) {
  Errc const code = error == EADDRINUSE && port != 0 ? Errc::in_use : error == EACCES ? Errc::permission : Errc::io;
  return fail(code, "port " + std::to_string(port), error);
}

Result<Listening> listening_on(UniqueFd only, std::uint16_t wanted) {
  if (!only) {
    return cannot_listen(wanted, errno);
  }
  Listening listening;
  listening.port = port_of(only.get());
  listening.sockets.push_back(std::move(only));
  return listening;
}

Result<Listening> listen_everywhere(std::uint16_t port) {
  UniqueFd fd = listen_on(AF_INET6, port, false);
  if (!fd && no_such_family(errno)) {
    fd = listen_on(AF_INET, port, false);
  }
  return listening_on(std::move(fd), port);
}

Result<Listening> listen_on_loopback(std::uint16_t wanted) {
  for (int tries = 0; tries < kLoopbackTries; ++tries) {
    UniqueFd v4 = listen_on(AF_INET, wanted, true);
    if (!v4) {
      return no_such_family(errno) ? listening_on(listen_on(AF_INET6, wanted, true), wanted)
                                   : cannot_listen(wanted, errno);
    }
    auto listening = listening_on(std::move(v4), wanted);
    UniqueFd v6 = listen_on(AF_INET6, listening->port, true);
    int const error = v6 || no_such_family(errno) ? 0 : errno;
    if (v6) {
      listening->sockets.push_back(std::move(v6));
    }
    if (error == 0) {
      return listening;
    }
    if (wanted != 0 || error != EADDRINUSE) {
      return cannot_listen(wanted, error);
    }
  }
  return cannot_listen(wanted, EADDRINUSE);
}

/// An interface that was up keeps its routes when it goes down, and packets vanish. Asks by ioctl, because containers
/// may lack netlink.
bool loopback_is_down() {
  UniqueFd const fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq asked{};
  std::strcpy(asked.ifr_name, "lo");
  return fd && ::ioctl(fd.get(), SIOCGIFFLAGS, &asked) == 0 && (asked.ifr_flags & IFF_UP) == 0;
}

/// Whether the kernel has a route there; sends nothing.
bool has_way_to_loopback(int family) {
  UniqueFd const fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address const a = address_of(family, 9, true);
  return fd && ::connect(fd.get(), &a.any, length_of(family)) == 0;
}

constexpr std::size_t kSpareTries = 256;

std::vector<PortRange> ports_of_others() {
  std::vector<PortRange> all;
  for (char const* const name : {"ip_local_port_range", "ip_local_reserved_ports"}) {
    std::ifstream file(std::string("/proc/sys/net/ipv4/") + name);
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    auto const ranges = port_ranges(text);
    all.insert(all.end(), ranges.begin(), ranges.end());
  }
  return all;
}

in_port_t& port_in(sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                       : reinterpret_cast<sockaddr_in&>(address).sin_port;
}

}  // namespace

Result<Listening> listen_at(ListenAt const& where) {
  return where.loopback_only ? listen_on_loopback(where.port) : listen_everywhere(where.port);
}

std::vector<std::string> loopback_addresses() {
  std::vector<std::string> found;
  if (loopback_is_down()) {
    return found;
  }
  if (has_way_to_loopback(AF_INET)) {
    found.emplace_back("127.0.0.1");
  }
  if (has_way_to_loopback(AF_INET6)) {
    found.emplace_back("::1");
  }
  return found;
}

Accepted accept_next(int listener) {
  Address from{};
  socklen_t size = sizeof from;
  int const fd = ::accept4(listener, &from.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    return {};
  }
  return {fd, {tcp_end_of(&from.any), own_end(fd)}};
}

bool is_established(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_state == TCP_ESTABLISHED;
}

Result<UniqueFd> open_standby(std::string const& loopback) {
  auto listening = listen_at({0, !loopback.empty()});
  if (!listening) {
    return fail(Errc::io, "cannot open the standby socket", listening.error().os_errno);
  }
  return std::move(loopback == "::1" ? listening->sockets.back() : listening->sockets.front());
}

UniqueFd keep_loopback_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int const on = 1;
  Address const a = address_of(AF_INET, 0, true);
  bool const kept = fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
                    ::bind(fd.get(), &a.any, length_of(AF_INET)) == 0;
  return kept ? std::move(fd) : UniqueFd();
}

int bind_to_spare_port(int fd, sockaddr const* at, socklen_t size) {
  sockaddr_storage address{};
  std::memcpy(&address, at, size);
  errno = EADDRINUSE;
  for (auto const port : spare_ports(ports_of_others(), random_number(), kSpareTries)) {
    port_in(address) = htons(port);
    if (::bind(fd, reinterpret_cast<sockaddr const*>(&address), size) == 0) {
      return 0;
    }
    if (errno != EADDRINUSE && errno != EACCES) {
      return -1;
    }
  }
  return -1;
}

int bind_somewhere(int fd, sockaddr const* at, socklen_t size) {
  int const bound = ::bind(fd, at, size);
  sockaddr_storage address{};
  std::memcpy(&address, at, size);
  return bound == 0 || errno != EADDRINUSE || port_in(address) != 0 ? bound : bind_to_spare_port(fd, at, size);
}

namespace {

/// connect(2) of an unbound socket. If the kernel has no port left for it, from a spare port.
int connect_from_somewhere(int fd, sockaddr const* to, socklen_t size) {
  int const connected = ::connect(fd, to, size);
  if (connected == 0 || errno != EADDRNOTAVAIL) {
    return connected;
  }
  sockaddr_storage any{};
  any.ss_family = to->sa_family;
  if (bind_to_spare_port(fd, reinterpret_cast<sockaddr const*>(&any), size) != 0) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  return ::connect(fd, to, size);
}

}  // namespace

Result<UniqueFd> begin_connect(sockaddr const* to, socklen_t size) {
  UniqueFd fd(::socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fail(Errc::io, "cannot make a socket", errno);
  }
  if (connect_from_somewhere(fd.get(), to, size) != 0 && errno != EINPROGRESS) {
    return fail(Errc::closed, "cannot connect", errno);
  }
  return fd;
}

int connect_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace cxxrun::os
