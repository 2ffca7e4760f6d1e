#include "src/base/os/spare_ports.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <netinet/in.h>
#include <string>

#include "src/base/core/spare_ports.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::os {
namespace {

constexpr std::size_t kTries = 256;

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

int bind_to_spare_port(int fd, sockaddr const* at, socklen_t size) {
  sockaddr_storage address{};
  std::memcpy(&address, at, size);
  errno = EADDRINUSE;
  for (auto const port : spare_ports(ports_of_others(), random_number(), kTries)) {
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

}  // namespace cxxrun::os
