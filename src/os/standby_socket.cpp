#include "src/os/standby_socket.hpp"

#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>

namespace cxxrun::os {
namespace {

constexpr int kBacklog = 4096;

bool listens(int fd, sockaddr const* where, socklen_t size) {
  return bind(fd, where, size) == 0 && listen(fd, kBacklog) == 0;
}

}  // namespace

Result<UniqueFd> open_standby(bool loopback_only) {
  int const off = 0;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!loopback_only && fd && setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
      listens(fd.get(), reinterpret_cast<sockaddr const*>(&v6), sizeof v6)) {
    return fd;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = loopback_only ? htonl(INADDR_LOOPBACK) : INADDR_ANY;
  fd.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd && listens(fd.get(), reinterpret_cast<sockaddr const*>(&v4), sizeof v4)) {
    return fd;
  }
  return fail(Errc::io, "no socket to take over with", errno);
}

}  // namespace cxxrun::os
