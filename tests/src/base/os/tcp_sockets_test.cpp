#include "src/base/os/tcp_sockets.hpp"

#include <cstdint>
#include <netinet/in.h>
#include <sys/socket.h>
#include <utility>

#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

namespace {

/// A socket that listens there; -1: it cannot.
os::UniqueFd listening(std::uint16_t port, int shares) {
  os::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int const on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &shares, sizeof shares);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bool const listens = bind(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && listen(fd.get(), 8) == 0;
  return listens ? std::move(fd) : os::UniqueFd();
}

}  // namespace

TEST_CASE("tcp_sockets: at a port that is kept several may listen who share it, and nobody else", "[process]") {
  auto const kept = os::keep_loopback_port();
  REQUIRE(kept);
  auto const port = os::port_of(kept.get());
  CHECK_FALSE(listening(port, 0));
  auto const first = listening(port, 1);
  CHECK(first);
  CHECK(listening(port, 1));
  CHECK(os::port_of(os::keep_loopback_port().get()) != port);
}
