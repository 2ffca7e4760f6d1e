#include "launcher/doctor/pings.hpp"

#include <cmath>
#include <sys/socket.h>

#include "src/os/local_address.hpp"
#include "tests/support/catch.hpp"

using cxxrun::launcher::doctor::Answerer;
using cxxrun::launcher::doctor::Callee;
namespace os = cxxrun::os;

namespace {

os::UniqueFd connected(std::uint16_t port) {
  auto const there = os::resolve("127.0.0.1", port, SOCK_STREAM, AI_NUMERICHOST).value();
  os::UniqueFd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(made.get(), there->ai_addr, there->ai_addrlen) == 0);
  return made;
}

}  // namespace

TEST_CASE("pings: a call finds the clock of this machine not to be apart from itself", "[process]") {
  auto const answerer = Answerer::start().value();
  auto const call = Callee(3, "127.0.0.1", answerer->port()).call();
  CHECK((call.to == 3 && call.error.empty() && call.round_trip > 0));
  CHECK(std::abs(call.ahead) < 1e6);
}

TEST_CASE("pings: whoever says nothing, one byte, or reads no answer keeps nobody from being answered", "[process]") {
  auto const answerer = Answerer::start().value();
  SECTION("nothing") {
    auto const silent = connected(answerer->port());
    CHECK(Callee(0, "127.0.0.1", answerer->port()).call().error.empty());
  }
  SECTION("one byte") {
    auto const scanner = connected(answerer->port());
    REQUIRE(::send(scanner.get(), "x", 1, 0) == 1);
    CHECK(Callee(0, "127.0.0.1", answerer->port()).call().error.empty());
  }
  SECTION("without reading") {
    auto const deaf = connected(answerer->port());
    std::string const many(1 << 20, 'x');
    while (::send(deaf.get(), many.data(), many.size(), MSG_DONTWAIT) > 0) {
    }
    CHECK(Callee(0, "127.0.0.1", answerer->port()).call().error.empty());
  }
}
