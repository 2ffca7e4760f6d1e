#include "src/host/rails/rail_socket.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "cxxrun/failure.hpp"

namespace cxxrun::host {
namespace {

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<Found> literal(StoreAddress const& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found) != 0) {
    return fail(Errc::usage, "\"" + address.host + "\" is not an IPv4 or IPv6 address");
  }
  return Found(found, ::freeaddrinfo);
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

}  // namespace

Result<os::UniqueFd> begin_connect(StoreAddress const& address) {
  auto const found = literal(address);
  if (!found) {
    return found.error();
  }
  addrinfo const& where = **found;
  os::UniqueFd fd(::socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return fail(Errc::io, "cannot make a socket", errno);
  }
  if (::connect(fd.get(), where.ai_addr, where.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return fail(Errc::closed, "cannot connect", errno);
  }
  return fd;
}

void send_at_once(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

// No limit on what is not acknowledged: a peer that computes for long takes nothing and lives.
void keep_alive(int fd) {
  constexpr int kIdle = 60;  // seconds
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kIdle);
}

// Keepalive probes are sent where nothing else is; TCP_USER_TIMEOUT is for a farewell that is not acknowledged.
void notice_silence(int fd, std::chrono::milliseconds silence) {
  constexpr int kProbes = 3;
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(silence / (kProbes + 1)).count();
  int const pause = static_cast<int>(std::max<std::int64_t>(seconds, 1));
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, pause);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
}

RailListener listen_for_rails(std::string const& host) {
  auto const found = or_throw(literal({host, 0}));
  os::UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (!fd || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), SOMAXCONN) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    throw Failure(fail(Errc::io, "cannot listen at " + host + " for the ranks of other nodes", errno));
  }
  std::uint16_t const port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 const&>(bound).sin6_port
                                                         : reinterpret_cast<sockaddr_in const&>(bound).sin_port;
  return {std::move(fd), {host, ntohs(port)}};
}

}  // namespace cxxrun::host
