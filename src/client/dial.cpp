#include "src/client/dial.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>

#include "src/client/interruption.hpp"
#include "src/os/poll_time.hpp"

namespace cxxrun {

bool socket_ready(int fd, short events, TimePoint deadline) {
  for (;;) {
    int const left = os::poll_time(deadline);
    std::array<pollfd, 2> watched{{{fd, events, 0}, {client::Interruptible::event(), POLLIN, 0}}};
    int const n = ::poll(watched.data(), watched.size(), left);
    if (n > 0 && watched[0].revents != 0) {
      return true;
    }
    if (n > 0 || (left == 0 && n == 0)) {
      return false;
    }
  }
}

namespace {

// One attempt at one address.
Result<os::UniqueFd> connect_to(addrinfo const& address, TimePoint deadline) {
  os::UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) {
    return fail(Errc::io, "cannot make a socket", errno);
  }
  int const on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
    return fail(Errc::closed, "cannot connect", errno);
  }
  if (!socket_ready(fd.get(), POLLOUT, deadline)) {
    return fail(Errc::timeout, "no answer to the connection attempt");
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    return fail(Errc::closed, "cannot connect", error);
  }
  return fd;
}

}  // namespace

// Each address gets its share of the time, so that one that swallows packets
// does not use up what the others need.
Result<os::UniqueFd> dial(StoreAddress const& address, TimePoint deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  int const error = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    return fail(Errc::not_found, "cannot resolve the name: " + std::string(::gai_strerror(error)));
  }
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> const owner(found, ::freeaddrinfo);
  int left = 0;
  for (addrinfo const* a = found; a != nullptr; a = a->ai_next) {
    ++left;
  }
  Result<os::UniqueFd> result = fail(Errc::not_found, "the name has no address");
  for (addrinfo const* a = found; a != nullptr; a = a->ai_next, --left) {
    TimePoint const now = Clock::now();
    result = connect_to(*a, now + (deadline - now) / left);
    if (result) {
      break;
    }
  }
  return result;
}

}  // namespace cxxrun
