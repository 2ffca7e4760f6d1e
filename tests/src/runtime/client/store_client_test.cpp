#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "cxxrun/store.hpp"
#include "src/base/wire/store_protocol.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/store_fixture.hpp"

using cxxrun::Errc;
using cxxrun::Store;
using cxxrun::test::kGuardMs;
using cxxrun::test::RawClient;
using cxxrun::test::StoreFixture;
using namespace std::string_literals;

namespace {

constexpr Store::Millis kGuard{kGuardMs};
constexpr Store::Millis kSoon{20};  // for waits that must end without an answer

}  // namespace

TEST_CASE("store_client: each operation does what it says", "[process]") {
  StoreFixture f;
  Store store = f.client();

  REQUIRE(store.set("k", "a\0b"s));
  CHECK(store.get("k").value() == "a\0b"s);
  CHECK(store.add("n", 5).value() == 5);
  CHECK(store.add("n", -7).value() == -2);
  CHECK(store.compare_set("c", "", "new").value() == "new");
  CHECK(store.compare_set("c", "other", "x").value() == "new");
  REQUIRE(store.append("k", "!"));
  CHECK(store.get("k").value() == "a\0b!"s);
  CHECK(store.check({"k", "n"}).value());
  CHECK_FALSE(store.check({"k", "missing"}).value());
  CHECK(store.num_keys().value() == 3);
  CHECK(store.delete_key("c").value());
  CHECK_FALSE(store.delete_key("c").value());
}

TEST_CASE("store_client: several keys travel together and come back in order", "[process]") {
  StoreFixture f;
  Store store = f.client();

  REQUIRE(store.multi_set({{"a", "1"}, {"b", ""}, {"c", std::string(200000, 'x')}}));
  CHECK(store.multi_get({"c", "a", "b"}).value() == std::vector<std::string>{std::string(200000, 'x'), "1", ""});
  CHECK(store.multi_get({}).value().empty());
}

TEST_CASE("store_client: keys carry the slash that torch's client puts in front", "[process]") {
  StoreFixture f;
  Store store = f.client();
  REQUIRE(store.set("k", "v"));
  REQUIRE(store.num_keys().value() == 1);
  RawClient const torch(f.port);
  torch.send(cxxrun::wire::encode_request(cxxrun::wire::GetRequest{"/k"}, cxxrun::wire::StoreDialect::plain));

  CHECK(torch.receive(9) == cxxrun::wire::encode_value_reply("v"));
}

TEST_CASE("store_client: a wait that times out names the keys and leaves the store usable", "[process]") {
  StoreFixture f;
  Store store = f.client();

  auto const waited = store.wait({"a", "b", "c", "d"}, kSoon);
  REQUIRE_FALSE(waited);
  CHECK(waited.error().code == Errc::timeout);
  CHECK(waited.error().context.ends_with("not written within 20 ms: \"a\", \"b\", \"c\" and 1 more"));
  CHECK(store.get("a", kSoon).error().code == Errc::timeout);
  CHECK(store.multi_get({"a"}, kSoon).error().code == Errc::timeout);
  REQUIRE(store.set("a", "late"));
  CHECK(store.get("a").value() == "late");
}

TEST_CASE("store_client: get waits for another client's set", "[process]") {
  StoreFixture f;
  Store writer = f.client();
  auto got = std::async(std::launch::async, [&f] { return f.client().get("k", kGuard); });
  REQUIRE(writer.set("k", "v"));

  CHECK(got.get().value() == "v");
}

TEST_CASE("store_client: a value of many megabytes arrives whole", "[process]") {
  StoreFixture f;
  Store store = f.client();
  std::string const value(20UL * 1024 * 1024 + 1, 'v');

  REQUIRE(store.set("big", value));
  CHECK(store.get("big").value() == value);
}

TEST_CASE("store_client: a refused request is an error then and ever after", "[process]") {
  StoreFixture f;
  Store store = f.client();
  REQUIRE(store.set("k", "apples"));

  CHECK(store.add("k", 1).error().code == Errc::closed);
  CHECK(store.check({"k"}).error().code == Errc::closed);
  CHECK(f.client().get("k").value() == "apples");
}

TEST_CASE("store_client: what is over a limit is an error that names it, and the store stays usable", "[process]") {
  StoreFixture f;
  Store store = f.client();
  std::string const key(cxxrun::wire::kMaxStoreKeyBytes, 'k');  // and the slash

  auto const refused = store.set(key, "v");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().context.ends_with("nothing is sent: SET with a key of 8193 bytes; at most 8192"));
  CHECK(store.add(key, 1).error().code == Errc::usage);
  CHECK(store.get(key).error().code == Errc::usage);
  CHECK(store.set("big", std::string(cxxrun::wire::kMaxStoreValueBytes + 1, 'v')).error().code == Errc::usage);
  CHECK(store.wait(std::vector<std::string>(cxxrun::wire::kMaxStoreKeys + 1, "k")).error().code == Errc::usage);
  CHECK(store.set(key.substr(1), "v"));
  CHECK(store.get(key.substr(1)).value() == "v");
}

TEST_CASE("store_client: the end of the server is an error, not a wait", "[process]") {
  auto f = std::make_unique<StoreFixture>();
  Store store = f->client();
  f.reset();

  CHECK(store.wait({"k"}, kGuard).error().code == Errc::closed);
}

TEST_CASE("store_client: nobody there is a timeout that names address and reason", "[process]") {
  std::uint16_t const port = StoreFixture().port;  // free again
  auto const store = Store::connect({"127.0.0.1", port}, Store::Millis(50));

  REQUIRE_FALSE(store);
  CHECK(store.error().code == Errc::timeout);
  CHECK(store.error().message().find("127.0.0.1 port " + std::to_string(port)) != std::string::npos);
  CHECK(store.error().message().find("refused") != std::string::npos);
}

TEST_CASE("store_client: a server that starts later is found", "[process]") {
  auto const port = cxxrun::store::StoreServer().open(1, {0, true}).value();  // nobody listens there any more
  cxxrun::store::StoreServer server;
  auto store = std::async(std::launch::async, [port] { return Store::connect({"127.0.0.1", port}, kGuard); });
  REQUIRE(server.open(2, {port, true}));

  CHECK(store.get().value().add("n", 1).value() == 1);
}

TEST_CASE("store_client: an address without host or port is refused at once", "[process]") {
  CHECK(Store::connect({"", 29500}).error().code == Errc::usage);
  CHECK(Store::connect({"127.0.0.1", 0}).error().code == Errc::usage);
}

namespace {

/// A listener that serves one caller after the other.
struct FakeServer {
  explicit FakeServer(std::function<void(int peer)> serve)
      : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listener, 8) == 0);
    REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port = ntohs(address.sin_port);
    thread = std::thread([this, serve = std::move(serve)] {
      for (int peer = 0; (peer = ::accept(listener, nullptr, nullptr)) >= 0; ::close(peer)) {
        serve(peer);
      }
    });
  }
  ~FakeServer() {
    ::shutdown(listener, SHUT_RDWR);
    thread.join();
    ::close(listener);
  }
  FakeServer(FakeServer const&) = delete;
  FakeServer& operator=(FakeServer const&) = delete;
  int listener;
  std::uint16_t port = 0;
  std::thread thread;
};

/// Answers the greeting's PING and WAITs, and nothing else.
void answer_waits(int peer) {
  cxxrun::wire::StoreDecoder decoder;
  char bytes[4096];
  for (ssize_t n = 0; (n = ::recv(peer, bytes, sizeof bytes, 0)) > 0;) {
    std::string_view input(bytes, static_cast<std::size_t>(n));
    cxxrun::wire::StoreRequest request;
    while (decoder.next(input, request) == cxxrun::wire::StoreDecoder::Status::request) {
      auto const* const ping = std::get_if<cxxrun::wire::PingRequest>(&request);
      bool const waits = std::holds_alternative<cxxrun::wire::WaitRequest>(request);
      std::string const reply = ping != nullptr ? cxxrun::wire::encode_ping_reply(ping->nonce)
                                : waits         ? std::string(1, cxxrun::wire::kStoreStopWaiting)
                                                : "";
      static_cast<void>(::send(peer, reply.data(), reply.size(), MSG_NOSIGNAL));
    }
  }
}

/// A store that closes connections which begin with a greeting, and answers NUM_KEYS of the oldest dialect with `keys`.
auto old_store(std::string keys) {
  return [keys = std::move(keys)](int peer) {
    char op = 0;
    if (::recv(peer, &op, 1, 0) == 1 && op == 6) {
      static_cast<void>(::send(peer, keys.data(), keys.size(), MSG_NOSIGNAL));
    }
  };
}

}  // namespace

TEST_CASE("store_client: a server that falls silent after a wait holds up a get for 5 s at most", "[process]") {
  FakeServer const server(answer_waits);
  auto const began = std::chrono::steady_clock::now();
  {
    Store store = Store::connect({"127.0.0.1", server.port}, 10 * kGuard).value();
    CHECK(store.get("k", kSoon).error().code == Errc::timeout);
    CHECK(store.check({"k"}).error().code == Errc::timeout);  // its connection is of no use any more
  }
  CHECK(std::chrono::steady_clock::now() - began < kGuard);
}

TEST_CASE("store_client: a store from before the greeting is named at once", "[process]") {
  FakeServer const old(old_store("\1\0\0\0\0\0\0\0"s));
  auto const refused = Store::connect({"127.0.0.1", old.port}, kGuard);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::protocol);
  CHECK(refused.error().context.find("port " + std::to_string(old.port) +
                                     ": speaks the protocol of PyTorch 2.0 and older") != std::string::npos);

  FakeServer const other(old_store("HTTP/1.1 400 Bad Request"));
  CHECK(Store::connect({"127.0.0.1", other.port}, kSoon).error().code == Errc::timeout);
}
