#include "src/os/local_address.hpp"

#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cxxrun::os {
namespace {

bool can_bind(addrinfo const& address) {
  int const fd = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return false;
  }
  bool const bound = bind(fd, address.ai_addr, address.ai_addrlen) == 0;  // port 0: any
  close(fd);
  return bound;
}

}  // namespace

Result<bool> is_local_address(std::string const& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int const rc = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (rc != 0) {
    return fail(Errc::not_found, "cannot resolve host " + host + ": " + gai_strerror(rc) + "; check --rdzv-endpoint");
  }
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> const owner(found, freeaddrinfo);
  for (auto const* each = found; each != nullptr; each = each->ai_next) {
    if (can_bind(*each)) {
      return true;
    }
  }
  return false;
}

}  // namespace cxxrun::os
