#include "tests/support/catch.hpp"
#include "tests/support/rail.hpp"
#include "tests/support/rail_stranger.hpp"
#include "tests/support/sanitized.hpp"

using namespace cxxrun;
using std::chrono::milliseconds;
using test::bytes_of_value;
using test::read_greeting;
using test::wait_for;

namespace {

std::string connect(int node, std::vector<host::RailListener>& listeners, host::Patience const& patience,
                    int* held = nullptr) {
  test::NoMates mates;
  auto const config = test::rail_config(node, listeners);
  auto mine = std::move(listeners[static_cast<std::size_t>(node)]);
  listeners.clear();
  try {
    host::Rails rails(config, std::move(mine), mates, patience);
    float value = static_cast<float>(node);
    comm::Call call;
    call.kind = comm::Kind::all_reduce;
    call.type = DType::f32;
    call.count = 1;
    rails.all_reduce(call, reinterpret_cast<std::byte*>(&value), 1, patience);
    if (held != nullptr) {
      *held = mates.held_by;
    }
    return std::to_string(value);
  } catch (Failure const& error) {
    return error.error().context;
  } catch (PeerFailure const& error) {
    return error.what();
  }
}

wire::RailGreeting greeting(int from, int to) {
  wire::RailGreeting greeting;
  greeting.from = test::rank_of(from);
  greeting.to = test::rank_of(to);
  greeting.generation = 7;
  greeting.nonce = 0x1234'5678'9abc'def0;
  return greeting;
}

os::UniqueFd stranger(host::RailListener const& listener, std::string const& words) {
  auto fd = test::connect_to(listener.address);
  test::send_all(fd.get(), words);
  return fd;
}

}  // namespace

TEST_CASE("connections between nodes that are idle for long are kept alive") {
  auto const ends = test::run_rail(2, [](int, host::Rails& rails) {
    test::meet(rails);
    std::string said;
    for (int fd = 0; fd < 256; ++fd) {
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      int on = 0;
      socklen_t size = sizeof on;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 && peer.ss_family == AF_INET) {
        ::getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size);
        said += on != 0 ? "kept " : "forgotten ";
      }
    }
    test::meet(rails);
    return said;
  });
  for (auto const& end : ends) {
    CHECK(end.said == "kept kept ");
  }
}

TEST_CASE("strangers at the door hold nobody up and are nobody's peer") {
  int const nodes = GENERATE(2, 3);
  auto listeners = test::loopback_listeners(nodes);
  std::vector<os::UniqueFd> strangers;
  for (int node = 0; node < nodes; ++node) {  // these come first and stay connected
    std::vector<std::string> words{"", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: x\r\n\r\n",
                                   std::string(40, '\0'),
                                   bytes_of_value(greeting(0, node)).substr(0, sizeof(wire::RailGreeting) - 1)};
    for (auto const channel : {wire::RailChannel::data, wire::RailChannel::control}) {
      auto other_job = greeting(0, node);
      other_job.channel = channel;
      auto other_generation = other_job;
      auto to_another = other_job;
      auto higher_node = greeting(2, node);
      other_job.nonce ^= 1U;
      other_generation.generation = 6;
      to_another.to = 99;
      higher_node.channel = channel;
      for (auto const& wrong : {other_job, other_generation, to_another, higher_node}) {
        words.push_back(bytes_of_value(wrong));
      }
    }
    for (auto const& text : words) {
      strangers.push_back(stranger(listeners[static_cast<std::size_t>(node)], text));
    }
  }
  auto const ends = test::run_ranks(nodes, [&](int node) { return connect(node, listeners, test::patience()); });
  for (auto const& end : ends) {
    CHECK(end.said == std::to_string(nodes == 2 ? 1.0F : 3.0F));
  }
}

TEST_CASE("a stranger that speaks the protocol does not stand in for a peer") {
  int const wrong = GENERATE(range(0, 4));
  CAPTURE(wrong);
  auto listeners = test::loopback_listeners(2);
  std::vector<os::UniqueFd> strangers;
  for (auto const channel : {wire::RailChannel::data, wire::RailChannel::control}) {
    auto words = greeting(0, 1);
    words.channel = channel;
    words.nonce ^= wrong == 0 ? 1U : 0U;
    words.generation += wrong == 1 ? 1 : 0;
    words.to += wrong == 2 ? 1 : 0;
    words.from += wrong == 3 ? 1 : 0;
    strangers.push_back(stranger(listeners[1], bytes_of_value(words)));
  }
  auto const ends = test::run_ranks(
      2, [&](int node) { return node == 0 ? "" : connect(node, listeners, test::patience(milliseconds(100))); });
  CHECK(ends[1].said.find("rank 10 on node0 has not connected") != std::string::npos);
}

TEST_CASE("the first to greet stands, and who comes later with the same words is not answered") {
  auto listeners = test::loopback_listeners(2);
  auto words = greeting(0, 1);
  auto const first = stranger(listeners[1], bytes_of_value(words));
  auto const ends = test::run_ranks(
      2, [&](int node) { return node == 0 ? "" : connect(node, listeners, test::patience(milliseconds(5000))); },
      [&](auto const&) {
        CHECK(read_greeting(first.get()).to == words.from);
        auto const second = stranger(listeners[1], bytes_of_value(words));
        wait_for(second.get(), POLLIN);
        char byte = 0;
        CHECK(::recv(second.get(), &byte, 1, 0) <= 0);
        pollfd still{first.get(), POLLIN, 0};
        CHECK(::poll(&still, 1, 0) == 0);
        ::shutdown(first.get(), SHUT_RDWR);  // it has broken: its caller calls again
        auto const again = stranger(listeners[1], bytes_of_value(words));
        CHECK(read_greeting(again.get()).to == words.from);
      });
  CHECK(ends[1].said.find("rank 10 on node0 has not connected") != std::string::npos);
}

TEST_CASE("a peer of another version is named by whoever is connected to") {
  auto listeners = test::loopback_listeners(2);
  auto later = greeting(0, 1);
  later.version = 99;
  auto const guest = stranger(listeners[1], bytes_of_value(later));
  auto const ends =
      test::run_ranks(2, [&](int node) { return node == 0 ? "" : connect(node, listeners, test::patience()); });
  CHECK(ends[1].said ==
        "rank 10 on node0 speaks version 99 of the protocol between nodes, rank 11 on node1 version 2: "
        "build all ranks with the same version of cxxrun");
  CHECK(read_greeting(guest.get()).version == wire::kRailVersion);
}

TEST_CASE("a peer of another version is named by whoever connects") {
  auto listeners = test::loopback_listeners(2);
  auto const ends = test::run_ranks(
      2, [&](int node) { return node == 1 ? "" : connect(node, listeners, test::patience()); },
      [&](auto const&) {
        wait_for(listeners[1].fd.get(), POLLIN);
        os::UniqueFd const fd(::accept(listeners[1].fd.get(), nullptr, nullptr));
        CHECK(read_greeting(fd.get()).version == wire::kRailVersion);
        auto later = greeting(1, 0);
        later.version = 99;
        auto const words = bytes_of_value(later);
        ::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
        pollfd closed{fd.get(), POLLIN, 0};
        ::poll(&closed, 1, 20'000);
      });
  CHECK(ends[0].said.find("rank 11 on node1 speaks version 99") == 0);
}

TEST_CASE("a peer that never comes is named by all, with the reason") {
  milliseconds const time(test::kSanitized ? 3000 : 300);  // in which the others meet
  int const missing = GENERATE(0, 1, 2);
  bool const listens = GENERATE(true, false);
  CAPTURE(missing, listens);
  auto listeners = test::loopback_listeners(3);
  if (!listens) {
    listeners[static_cast<std::size_t>(missing)].fd.reset();
  }
  auto const ends = test::run_ranks(
      3, [&](int node) { return node == missing ? "" : connect(node, listeners, test::patience(time)); });
  for (int node = 0; node < 3; ++node) {
    if (node != missing) {
      auto const& said = ends[static_cast<std::size_t>(node)].said;
      CAPTURE(said);
      CHECK(said.find("could not connect to all nodes within " + std::to_string(time.count()) + " ms: rank " +
                      std::to_string(10 + missing) + " on node" + std::to_string(missing)) != std::string::npos);
    }
  }
  if (missing == 2 && !listens) {
    CHECK(ends[0].said.find("Connection refused") != std::string::npos);
  }
}

TEST_CASE("a peer may start to listen after the others have tried") {
  auto listeners = test::loopback_listeners(2);
  auto const port = listeners[1].address.port;
  listeners[1].fd.reset();
  int tried[2];
  REQUIRE(::pipe(tried) == 0);
  struct Watch : test::NoMates {
    int fd = -1;
    int looks = 0;
    void check(host::Patience const& /*patience*/) override {
      if (++looks == 20) {  // the first attempt was refused before: on loopback at once
        char const c = 0;
        static_cast<void>(!::write(fd, &c, 1));
      }
    }
  };
  auto const ends = test::run_ranks(2, [&](int node) -> std::string {
    if (node == 1) {
      char c = 0;
      static_cast<void>(!::read(tried[0], &c, 1));
      listeners[1].fd.reset(::socket(AF_INET, SOCK_STREAM, 0));
      int const on = 1;
      ::setsockopt(listeners[1].fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(port);
      if (::bind(listeners[1].fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
          ::listen(listeners[1].fd.get(), 5) != 0) {
        return "cannot listen again";
      }
      return connect(node, listeners, test::patience());
    }
    Watch mates;
    mates.fd = tried[1];
    auto const config = test::rail_config(node, listeners);
    host::Rails const rails(config, std::move(listeners[0]), mates, test::patience());
    return "connected";
  });
  CHECK(ends[0].said == "connected");
}

TEST_CASE("an address that is none is refused by name") {
  REQUIRE_THROWS_WITH(host::listen_for_rails("localhost"), Catch::Contains("\"localhost\" is not an IPv4 or IPv6"));
}
