#include <algorithm>
#include <fstream>
#include <mutex>
#include <sys/resource.h>

#include "src/base/os/local_address.hpp"
#include "src/base/wire/store_protocol.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/store_fixture.hpp"

using namespace cxxrun::wire;
using namespace std::string_literals;
using cxxrun::Errc;
using cxxrun::store::StoreServer;
using cxxrun::test::RawClient;
using cxxrun::test::StoreFixture;

namespace {

std::string plain(StoreRequest const& request) {
  return encode_request(request, StoreDialect::plain);
}

std::string greeted(StoreRequest const& request) {
  return encode_request(request, StoreDialect::greeted);
}

// The resident memory of this process.
long resident() {
  long all = 0;
  long pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * 4096;
}

// Whether the store answers a new connection.
bool serves(std::uint16_t port) {
  RawClient const other(port);
  other.send(plain(AddRequest{"served", 0}));
  return other.receive(8).size() == 8;
}

/// A store with limits of its own, and its warnings.
struct Limited {
  explicit Limited(cxxrun::store::StoreLimits limits)
      : server(
            [this](std::string const& line) {
              std::lock_guard const lock(mutex);
              warned += line + "\n";
            },
            limits) {}
  [[nodiscard]] bool said(std::string const& text) {
    std::lock_guard const lock(mutex);
    return warned.find(text) != std::string::npos;
  }
  [[nodiscard]] std::ptrdiff_t lines_said() {
    std::lock_guard const lock(mutex);
    return std::count(warned.begin(), warned.end(), '\n');
  }
  std::mutex mutex;
  std::string warned;
  StoreServer server;
  std::uint16_t port = server.open(1, {0, true}).value();
};

}  // namespace

TEST_CASE("store_server: plain and greeted clients see each other's keys", "[process]") {
  StoreFixture f;
  RawClient const old_one(f.port);
  RawClient const new_one(f.port);
  old_one.send(plain(SetRequest{"/k", "v"}) + plain(NumKeysRequest{}));
  REQUIRE(old_one.receive(8) == encode_number_reply(1));

  new_one.send("\x00\xCE\xF7\x85\x3C\x0D\x2A\x00\x00\x00"s);
  CHECK(new_one.receive(4) == "\x2A\0\0\0"s);
  new_one.send(encode_request(GetRequest{"/k"}, StoreDialect::greeted));
  CHECK(new_one.receive(9) == encode_value_reply("v"));
}

TEST_CASE("store_server: a half request stops nobody", "[process]") {
  StoreFixture f;
  RawClient const half(f.port);
  half.send("\x00\x02\x00"s);

  CHECK(serves(f.port));
  half.send("\0\0\0\0\0\0/k\x01\0\0\0\0\0\0\0v"s + plain(NumKeysRequest{}));
  CHECK(half.receive(8) == encode_number_reply(2));
}

TEST_CASE("store_server: a huge length closes that connection only", "[process]") {
  StoreFixture f;
  RawClient const good(f.port);
  RawClient const bad(f.port);
  bad.send("\x00"s + std::string(8, '\xFF'));

  CHECK(bad.closed_by_server());
  good.send(plain(AddRequest{"n", 1}));
  CHECK(good.receive(8) == encode_number_reply(1));
}

TEST_CASE("store_server: an unknown opcode is closed after the replies before it", "[process]") {
  StoreFixture f;
  RawClient const c(f.port);
  c.send(plain(AddRequest{"n", 1}) + "\x0F"s);

  CHECK(c.receive(8) == encode_number_reply(1));
  CHECK(c.closed_by_server());
  CHECK(serves(f.port));
}

TEST_CASE("store_server: who does not take its replies is no longer read, and stops nobody", "[process]") {
  StoreFixture f;
  RawClient const slow(f.port, 4096);
  std::string const value(64UL * 1024, 'v');
  slow.send(plain(SetRequest{"big", value}));
  std::string const gets = [] {
    std::string all;
    for (int i = 0; i < 64; ++i) {
      all += plain(GetRequest{"big"});
    }
    return all;
  }();

  // A server that kept reading would have to hold 64 KiB for every 12 bytes taken here: 100 GiB in the end.
  constexpr std::size_t kTooMuch = 16UL * 1024 * 1024;
  std::size_t taken = 0;
  for (int refused_in_a_row = 0; refused_in_a_row < 50 && taken < kTooMuch;) {
    std::size_t const n = slow.send_some(gets);
    taken += n;
    refused_in_a_row = n == 0 ? refused_in_a_row + 1 : 0;
    REQUIRE(serves(f.port));
  }
  CHECK(taken < kTooMuch);
  CHECK(slow.receive(8 + value.size()) == encode_value_reply(value));
  CHECK(serves(f.port));
}

TEST_CASE("store_server: a slow reader gets every reply once it reads", "[process]") {
  StoreFixture f;
  RawClient const slow(f.port, 4096);
  std::string const value(256UL * 1024, 'v');
  constexpr int kGets = 40;
  std::string gets;
  for (int i = 0; i < kGets; ++i) {
    gets += plain(GetRequest{"big"});
  }
  slow.send(plain(SetRequest{"big", value}) + gets + plain(NumKeysRequest{}));
  REQUIRE(serves(f.port));

  for (int i = 0; i < kGets; ++i) {
    REQUIRE(slow.receive(8 + value.size()) == encode_value_reply(value));
  }
  CHECK(slow.receive(8).size() == 8);
}

TEST_CASE("store_server: a WAIT is answered when another connection writes the key", "[process]") {
  StoreFixture f;
  RawClient const waiter(f.port);
  RawClient const writer(f.port);
  waiter.send(plain(AddRequest{"n", 0}) + plain(WaitRequest{{"k"}}));
  REQUIRE(waiter.receive(8).size() == 8);  // so the WAIT, behind it in the same bytes, has been read too
  writer.send(plain(SetRequest{"k", "v"}));

  CHECK(waiter.receive(1) == "\0"s);
}

TEST_CASE("store_server: an abandoned WAIT of a plain client never answers a later request", "[process]") {
  StoreFixture f;
  RawClient const c(f.port);
  RawClient const writer(f.port);
  c.send(plain(WaitRequest{{"late"}}));
  c.send(plain(AddRequest{"n", 5}));
  REQUIRE(c.receive(8) == encode_number_reply(5));
  writer.send(plain(SetRequest{"late", "v"}) + plain(NumKeysRequest{}));
  REQUIRE(writer.receive(8).size() == 8);

  c.send(plain(GetRequest{"n"}));
  CHECK(c.receive(9) == encode_value_reply("5"));
}

TEST_CASE("store_server: a connection that goes away while it waits harms nobody", "[process]") {
  StoreFixture f;
  { RawClient(f.port).send(plain(WaitRequest{{"k"}})); }
  for (int turns = 0; turns < 20; ++turns) {  // of the server, which finds the end of the connection in one of them
    REQUIRE(serves(f.port));
  }
  RawClient const writer(f.port);
  writer.send(plain(SetRequest{"k", "v"}) + plain(NumKeysRequest{}));

  CHECK(writer.receive(8) == encode_number_reply(2));
}

TEST_CASE("store_server: requests of new clients are answered in order among others on one connection", "[process]") {
  StoreFixture f;
  RawClient const c(f.port);
  c.send(encode_greeting() + greeted(QueuePopRequest{"q"}) + greeted(QueuePushRequest{"q", "one"}) +
         greeted(SetRequest{"k", "v"}) + greeted(QueueLenRequest{"q"}) + greeted(ListKeysRequest{}) +
         greeted(WaitRequest{{"q", "k"}}) + greeted(BarrierRequest{"b", 1}) + greeted(QueuePopRequest{"q"}) +
         greeted(WaitRequest{{"q"}}) + greeted(AddRequest{"n", 5}) + greeted(QueuePushRequest{"q", ""}) +
         greeted(QueuePopRequest{"q"}) + greeted(PingRequest{7}));

  std::string const expected = encode_number_reply(0) + encode_number_reply(1) + encode_number_reply(1) +
                               encode_value_reply("k") + "\0\0"s + encode_number_reply(1) + encode_value_reply("one") +
                               encode_number_reply(5) + "\0"s + encode_number_reply(1) + encode_value_reply("") +
                               encode_ping_reply(7);
  CHECK(c.receive(expected.size()) == expected);
}

TEST_CASE("store_server: of two that wait for a queue one push wakes one, and of one that has gone none", "[process]") {
  StoreFixture f;
  std::string const wait = encode_greeting() + greeted(PingRequest{7}) + greeted(WaitRequest{{"q"}});
  RawClient const first(f.port);
  first.send(wait);
  REQUIRE(first.receive(4).size() == 4);  // so the WAIT, behind it in the same bytes, has been read too
  RawClient const second(f.port);
  second.send(wait);
  REQUIRE(second.receive(4).size() == 4);
  RawClient const pusher(f.port);
  pusher.send(encode_greeting() + greeted(QueuePushRequest{"q", "one"}));

  CHECK(first.receive(1) == "\0"s);
  second.send(greeted(CancelWaitRequest{}) + greeted(QueuePopRequest{"q"}) + greeted(BarrierRequest{"b", 2}));
  CHECK(second.receive(1 + 8 + 11) == "\1"s + encode_number_reply(1) + encode_value_reply("one"));
  second.send(greeted(CancelWaitRequest{}));
  CHECK(second.receive(1) == "\1"s);
  { RawClient(f.port).send(wait); }
  for (int turns = 0; turns < 20; ++turns) {  // of the server, which finds the end of the connection in one of them
    REQUIRE(serves(f.port));
  }
  pusher.send(greeted(QueuePushRequest{"q", "two"}) + greeted(QueueLenRequest{"q"}));
  CHECK(pusher.receive(8) == encode_number_reply(1));
}

TEST_CASE("store_server: values that have become small give their memory back", "[process]") {
  if (cxxrun::test::kSanitized) {
    return;  // a sanitizer gives nothing back at once
  }
  StoreFixture f;
  RawClient const c(f.port);
  long const before = resident();
  for (int i = 0; i < 1000; ++i) {
    std::string const key = std::to_string(i);
    c.send(plain(SetRequest{key, std::string(60000, 'v')}) + plain(AddRequest{"n", 1}));
    REQUIRE(c.receive(8).size() == 8);
    c.send(plain(SetRequest{key, "v"}) + plain(AddRequest{"n", 1}));
    REQUIRE(c.receive(8).size() == 8);
  }
  CHECK(resident() - before < (16L << 20U));
}

TEST_CASE("store_server: generations do not see each other, and closing one leaves the other", "[process]") {
  StoreServer server;
  auto const first = server.open(1, {0, true}).value();
  auto const second = server.open(2, {0, true}).value();
  RawClient const a(first);
  RawClient const b(second);
  a.send(plain(SetRequest{"k", "v"}) + plain(NumKeysRequest{}));
  b.send(plain(NumKeysRequest{}));
  CHECK(a.receive(8) == encode_number_reply(1));
  CHECK(b.receive(8) == encode_number_reply(0));

  server.close(1);
  CHECK(a.closed_by_server());
  CHECK(RawClient(first).closed_by_server());
  CHECK(serves(second));
  server.close(1);
  server.close(77);
}

TEST_CASE("store_server: a taken port and a generation opened twice are errors by name", "[process]") {
  StoreServer server;
  auto const port = server.open(1, {0, true}).value();

  auto const again = server.open(2, {port, true});
  REQUIRE_FALSE(again);
  CHECK(again.error().code == Errc::in_use);
  CHECK(again.error().context.find(std::to_string(port)) != std::string::npos);
  CHECK(server.open(1, {0, true}).error().code == Errc::usage);
}

TEST_CASE("store_server: a port goes from a store that is closed to the next one, and to nobody else", "[process]") {
  StoreServer server;
  for (bool const loopback : {false, true}) {
    auto const port = server.open(1, {0, loopback}).value();
    REQUIRE(serves(port));
    for (int times = 0; times < 3; ++times) {
      server.close(1);
      CHECK_FALSE(cxxrun::os::listen_at({port, loopback}));
      RawClient const late(port);
      CHECK(late.closed_by_server());

      CHECK(server.open(1, {port, loopback}).value() == port);
      CHECK_FALSE(cxxrun::os::listen_at({port, loopback}));
      CHECK(serves(port));
    }
    server.close(1);
  }
}

TEST_CASE("store_server: the ports of the newest stores that are closed are held, of older ones they are free",
          "[process]") {
  StoreServer server;
  std::vector<std::uint16_t> ports;
  for (std::size_t number = 0; number <= StoreServer::kMostShut; ++number) {
    ports.push_back(server.open(number, {0, true}).value());
    server.close(number);
  }
  CHECK(cxxrun::os::listen_at({ports.front(), true}));
  CHECK_FALSE(cxxrun::os::listen_at({ports[1], true}));
  CHECK_FALSE(cxxrun::os::listen_at({ports.back(), true}));
}

TEST_CASE("store_server: each socket is handed out once, before its port is known", "[process]") {
  std::vector<std::uint16_t> kept;
  StoreServer server({}, {}, [&](int listener) { kept.push_back(cxxrun::os::port_of(listener)); });
  auto const port = server.open(1, {0, false}).value();
  CHECK(kept == std::vector{port});
  server.close(1);
  REQUIRE(server.open(2, {port, false}));
  CHECK(kept == std::vector{port});
}

TEST_CASE("store_server: whoever fills it is closed, be it with keys or with requests that never end", "[process]") {
  Limited f({.held = 1UL << 20U});
  std::string const value(400UL * 1024, 'v');
  RawClient const fills(f.port);
  for (int i = 0; i < 3; ++i) {
    fills.send(plain(SetRequest{std::to_string(i), value}));
  }
  CHECK(fills.closed_by_server());
  CHECK(f.said("the store would hold more than 1048576 bytes"));

  RawClient const half(f.port);
  half.send(plain(SetRequest{"half", value}).substr(0, value.size()));
  CHECK(half.closed_by_server());
  CHECK(f.said("with its request the store would hold more"));
  CHECK(serves(f.port));
}

TEST_CASE("store_server: who takes no reply goes when others wait for the room", "[process]") {
  Limited f({.unsent = 1UL << 20U});
  std::string const value(16UL << 20U, 'v');
  RawClient const hoards(f.port, 4096);
  hoards.send(plain(SetRequest{"big", value}) + plain(AddRequest{"n", 1}));
  REQUIRE(hoards.receive(8) == encode_number_reply(1));
  hoards.send(plain(GetRequest{"big"}));
  REQUIRE(hoards.receive(8).size() == 8);  // the reply has begun

  CHECK(serves(f.port));
  CHECK(f.said("it does not read its replies, and others wait for the memory"));
}

TEST_CASE("store_server: a connection gives the memory of a large reply back once it has gone", "[process]") {
  if (cxxrun::test::kSanitized) {
    return;  // a sanitizer gives nothing back at once
  }
  StoreFixture f;
  std::string const value(4UL << 20U, 'v');
  std::vector<std::unique_ptr<RawClient>> clients;
  clients.push_back(std::make_unique<RawClient>(f.port));
  clients.back()->send(plain(SetRequest{"big", value}) + plain(AddRequest{"n", 1}));
  REQUIRE(clients.back()->receive(8) == encode_number_reply(1));
  long before = 0;
  for (int i = 0; i < 33; ++i) {
    clients.push_back(std::make_unique<RawClient>(f.port));
    clients.back()->send(plain(GetRequest{"big"}));
    REQUIRE(clients.back()->receive(8 + value.size()).size() == 8 + value.size());
    before = before == 0 ? resident() : before;
  }
  CHECK(resident() - before < (64L << 20U));
}

TEST_CASE("store_server: connections leave half of the descriptors to others, and come in as some go", "[process]") {
  constexpr int kMost = 20;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit const few{2UL * kMost, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  Limited f({});
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kMost + 5; ++i) {
    clients.push_back(std::make_unique<RawClient>(f.port));
    clients.back()->send(plain(AddRequest{"n", 1}));
  }
  for (int i = 0; i < kMost; ++i) {
    REQUIRE(clients[static_cast<std::size_t>(i)]->receive(8).size() == 8);
  }
  CHECK(cxxrun::test::eventually([&] { return f.said("cannot accept a connection"); }));
  clients.erase(clients.begin(), clients.begin() + 5);
  CHECK(clients.back()->receive(8).size() == 8);
  for (int i = 0; i < 5; ++i) {  // one leaves, another takes its place, and the store is full again
    clients.push_back(std::make_unique<RawClient>(f.port));
    clients.back()->send(plain(AddRequest{"n", 1}));
    clients.erase(clients.begin());
    CHECK(clients.back()->receive(8).size() == 8);
  }
  CHECK(f.lines_said() == 1);  // not once each time
}

TEST_CASE("store_server: what there is no memory for closes its connection and nothing else", "[process]") {
  if (cxxrun::test::kSanitized) {
    return;  // a sanitizer's own memory is far beyond any limit
  }
  auto const ends = cxxrun::test::run_ranks(1, [](int) -> std::string {
    Limited f({});
    RawClient const asks(f.port);
    asks.send(plain(SetRequest{"big", std::string(32UL << 20U, 'v')}) + plain(AddRequest{"n", 1}));
    if (asks.receive(8).size() != 8) {
      return "not stored";
    }
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlim_t const most = static_cast<rlim_t>(pages) * 4096 + (16UL << 20U);
    rlimit const limit{most, most};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) {
      return "no limit";
    }
    asks.send(plain(MultiGetRequest{{"big", "big", "big", "big", "big", "big"}}));
    bool const closed = asks.closed_by_server();
    return closed && f.said("there is not enough memory for its request") && serves(f.port) ? "goes on" : "does not";
  });
  CHECK(ends[0].returned());
  CHECK(ends[0].said == "goes on");
}
