#include "launcher/doctor/board.hpp"

#include <cmath>
#include <sys/socket.h>

#include "launcher/doctor/pings.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/base/wire/frame.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                    // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::doctor;  // NOLINT(google-build-using-namespace): the unit under test
using rendezvous::Key;

namespace {

constexpr Millis kGuard{20'000};
constexpr Millis kShort{300};

TimePoint soon(Millis time) {
  return Clock::now() + time;
}

/// All nodes have the same secret, made of this byte.
Transports secret(unsigned char byte) {
  Key::Bytes bytes{};
  bytes.fill(byte);
  return rendezvous::KeyTransports{false, [key = Key(bytes)](bool) -> Result<Key> { return key; }, {}, {}};
}

StepMeeting meeting(std::uint32_t index) {
  static std::uint16_t const port = os::listen_at({})->port;
  return {"7.0", "127.0.0.1", {port}, {"one", "two"}, index, 2};
}

os::UniqueFd connected(std::uint16_t port) {
  auto const there = os::resolve("127.0.0.1", port, SOCK_STREAM, AI_NUMERICHOST).value();
  os::UniqueFd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(made.get(), there->ai_addr, there->ai_addrlen) == 0);
  return made;
}

/// All that is answered until the other end closes.
std::string answer_to(std::uint16_t port, std::string const& said) {
  auto const socket = connected(port);
  REQUIRE(::send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  ::shutdown(socket.get(), SHUT_WR);
  std::string heard(4096, '\0');
  auto const size = ::recv(socket.get(), heard.data(), heard.size(), MSG_WAITALL);
  heard.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return heard;
}

}  // namespace

TEST_CASE("board: what a node tells others read, by a secret and by --auth none", "[process]") {
  auto const by = GENERATE(true, false) ? secret(1) : Transports();
  auto const first = Board::host(meeting(0), by).value();
  auto const second = Board::connect(meeting(1), by, soon(kGuard)).value();
  CHECK(first->name() == second->name());
  CHECK_FALSE(first->peek("facts/1"));
  CHECK(first->wait_for("facts/1", soon(kShort)).error().code == Errc::timeout);
  second->put("facts/1", "text");
  CHECK(first->wait_for("facts/1", soon(kGuard)).value() == "text");
  CHECK_FALSE(second->peek("port/0"));
  first->put("port/0", std::string(100'000, 'x'));
  CHECK(second->wait_for("port/0", soon(kGuard)).value().size() == 100'000);

  auto const call = Callee(3, "127.0.0.1", second->port()).call(first->key());
  CHECK((call.to == 3 && call.error.empty() && call.round_trip > 0));
  CHECK(std::abs(call.ahead) < 1e6);
}

TEST_CASE("board: who waits hears that the first node has ended", "[process]") {
  auto first = Board::host(meeting(0), secret(1)).value();
  auto const second = Board::connect(meeting(1), secret(1), soon(kGuard)).value();
  first.reset();
  CHECK(second->wait_for("end", soon(kGuard)).error().code == Errc::closed);
}

TEST_CASE("board: a node with another secret, or of another job, does not find it", "[process]") {
  auto const first = Board::host(meeting(0), secret(1)).value();
  auto const stranger = Board::connect(meeting(1), secret(2), soon(kShort));
  REQUIRE_FALSE(stranger);
  CHECK(stranger.error().code == Errc::permission);
  CHECK_THAT(stranger.error().message(),
             Catch::StartsWith("the first node, 127.0.0.1, is not trusted: it has a different"));
  auto other = meeting(1);
  other.id = "8.0";
  auto const elsewhere = Board::connect(other, secret(1), soon(kShort));
  REQUIRE_FALSE(elsewhere);
  CHECK(elsewhere.error().code == Errc::timeout);
  CHECK_THAT(elsewhere.error().message(), Catch::Contains("this is doctor 7.0, not doctor 8.0"));
}

TEST_CASE("board: who does not prove himself is told neither what is written there nor the time", "[process]") {
  auto const first = Board::host(meeting(0), secret(1)).value();
  first->put("facts/0", "precious");
  for (auto const port : {meeting(0).ports[0], first->port()}) {
    CHECK(answer_to(port, wire::frame(kAskClock)).empty());
    CHECK(answer_to(port, wire::frame("i7.0") + wire::frame("wfacts/0")).empty());
  }
  CHECK(Callee(0, "127.0.0.1", first->port()).call(std::nullopt).error == "connected, but no answer");
  auto const second = Board::host({"8.0", "127.0.0.1", {0}, {}, 0, 2}, secret(1)).value();
  CHECK(Callee(0, "127.0.0.1", first->port()).call(second->key()).error == "connected, but no answer");
}

TEST_CASE("board: silent connections keep nobody from it, and no call from being answered", "[process]") {
  auto const first = Board::host(meeting(0), secret(1)).value();
  std::vector<os::UniqueFd> silent;
  for (int i = 0; i < 64; ++i) {
    silent.push_back(connected(meeting(0).ports[0]));
    silent.push_back(connected(first->port()));
  }
  auto const deaf = connected(first->port());
  std::string const many(1 << 20, 'x');
  while (::send(deaf.get(), many.data(), many.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  auto const second = Board::connect(meeting(1), secret(1), soon(kGuard)).value();
  CHECK(Callee(0, "127.0.0.1", first->port()).call(second->key()).error.empty());
}
