// Only agents with the run's key are let in. Over real sockets.
#include <atomic>
#include <set>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "rendezvous/net/fence.hpp"
#include "rendezvous/net/host_owners.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/trust/secret.hpp"
#include "src/base/core/ports.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/coordinator_world.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using boost::asio::ip::tcp;
using cxxrun::test::Caller;
using cxxrun::test::Host;
using cxxrun::test::Stranger;
using cxxrun::test::wait_until;

namespace {

Terms terms_of_two(Millis heartbeat_timeout = Millis{0}) {
  Terms terms;
  terms.min_nodes = terms.max_nodes = 2;
  terms.heartbeat_timeout = heartbeat_timeout;
  return terms;
}

/// A key ring of a node that has this secret and looks for a run of that name.
std::shared_ptr<KeyRing> ring(boost::asio::io_context& io, std::string const& text,
                              std::string const& run = "run job") {
  Key const secret = *read_secret(text);
  return std::make_shared<KeyRing>(
      io, KeyTransports{false, [secret](bool) -> Result<Key> { return secret; }, {run}, {run}});
}

/// A key ring that counts how often its secret is read.
struct CountingRing {
  explicit CountingRing(boost::asio::io_context& io, Key const& secret)
      : keys(std::make_shared<KeyRing>(io, KeyTransports{false,
                                                         [secret, count = asked](bool) -> Result<Key> {
                                                           ++*count;
                                                           return secret;
                                                         },
                                                         {},
                                                         {"run job"}})) {}
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<KeyRing> keys;
};

std::string const kSecret = "7d3f0a91c5e86b24d07e19f5a2c8b643";
std::string const kOther = "b1946ac92492d2347c6235b4d2611184";

std::vector<Wrap> wraps_for(boost::asio::io_context& io, KeyRing& keys, CallId const& call) {
  std::optional<std::vector<Wrap>> made;
  auto const caller = std::make_shared<int>();
  keys.wrap_for(call, caller, [&](std::vector<Wrap> wraps) { made = std::move(wraps); });
  REQUIRE(wait_until(io, [&] { return made.has_value(); }));
  return *made;
}

Result<Key> taken(boost::asio::io_context& io, KeyRing& by, KeyOffer const& offer, CallId const& call) {
  std::optional<Result<Key>> found;
  by.unwrap(offer, call, [&](Result<Key> const& key) { found = key; });
  REQUIRE(wait_until(io, [&] { return found.has_value(); }));
  return *found;
}

/// A coordinator that requires proofs.
struct Guarded {
  Guarded() {
    REQUIRE(keys->make(true));
    port = *host.coordinator.listen({0});
    host.coordinator.open_run("job", terms_of_two());
  }
  [[nodiscard]] CallPlan plan(Caller const& caller, std::shared_ptr<KeyRing> with) const {
    auto plan = caller.plan({port}, terms_of_two());
    plan.keys = std::move(with);
    plan.patience = Millis{60'000};
    plan.once = true;
    return plan;
  }
  /// Both agents join and get their next messages.
  void form() {
    for (auto* const agent : {&first, &second}) {
      agent->call(plan(*agent, ring(io, kSecret)));
    }
    REQUIRE(wait_until(io, [&] { return first.heard<Prepare>() != nullptr && second.heard<Prepare>() != nullptr; }));
  }
  boost::asio::io_context io;
  std::shared_ptr<KeyRing> keys = ring(io, kSecret);
  Host host{io, "host", keys};
  std::uint16_t port = 0;
  Caller first{io, "a"};
  Caller second{io, "b"};
};

/// A relay between its caller and `to`, which may change a byte.
struct Relay : std::enable_shared_from_this<Relay> {
  Relay(boost::asio::io_context& io, std::uint16_t to) : acceptor(io, {tcp::v4(), 0}), caller(io), called(io) {
    called.connect({boost::asio::ip::address_v4::loopback(), to});
  }
  void start() {
    acceptor.async_accept(caller, [self = shared_from_this()](auto const& error) {
      if (!error) {
        self->pass(self->caller, self->called, true);
        self->pass(self->called, self->caller, false);
      }
    });
  }
  void pass(tcp::socket& from, tcp::socket& to, bool forth) {
    auto bytes = std::make_shared<std::array<char, 4096>>();
    from.async_read_some(boost::asio::buffer(*bytes),
                         [self = shared_from_this(), bytes, &from, &to, forth](auto const& error, std::size_t size) {
                           if (error) {
                             self->caller.close();
                             self->called.close();
                             return;
                           }
                           self->passed[forth ? 0 : 1].append(bytes->data(), size);
                           boost::system::error_code ignored;
                           boost::asio::write(to, boost::asio::buffer(*bytes, size), ignored);
                           self->pass(from, to, forth);
                         });
  }
  [[nodiscard]] std::uint16_t port() const { return acceptor.local_endpoint().port(); }
  tcp::acceptor acceptor;
  tcp::socket caller;
  tcp::socket called;
  std::array<std::string, 2> passed;  ///< forth, back
};

/// Sends the next of these to each caller.
class Answering {
 public:
  Answering(boost::asio::io_context& io, std::vector<std::string> words)
      : acceptor_(io, {tcp::v4(), 0}), words_(std::move(words)) {
    next();
  }
  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] std::size_t spoken() const { return callers_.size(); }

 private:
  void next() {
    if (callers_.size() < words_.size()) {
      acceptor_.async_accept([this](auto const& error, tcp::socket caller) {
        if (!error) {
          boost::asio::write(caller, boost::asio::buffer(words_[callers_.size()]));
          callers_.push_back(std::move(caller));
          next();
        }
      });
    }
  }
  tcp::acceptor acceptor_;
  std::vector<std::string> words_;
  std::vector<tcp::socket> callers_;
};

}  // namespace

TEST_CASE("trust: agents with the same secret form a generation, and their beats are answered") {
  Guarded world;
  world.form();
  world.first.link().send_beat(Beat{1, 0, 0});
  CHECK(wait_until(world.io, [&] { return !world.first.acks.empty(); }));
}

TEST_CASE("trust: who opened the run and who joined it know the same directory for their fence") {
  Guarded world;
  auto const joins = ring(world.io, kSecret);
  CHECK(fence_mark(joins->own(), "job").empty());
  world.first.call(world.plan(world.first, joins));
  REQUIRE(wait_until(world.io, [&] { return world.first.reply.has_value(); }));
  CHECK(fence_mark(joins->own(), "job").size() == 16);
  CHECK(fence_mark(joins->own(), "job") == fence_mark(world.keys->own(), "job"));
  REQUIRE(world.keys->make(true));  // the job was requeued
  CHECK(fence_mark(joins->own(), "job") != fence_mark(world.keys->own(), "job"));
}

TEST_CASE("trust: an agent with another secret is told nothing, and says why it does not come in") {
  Guarded world;
  world.first.call(world.plan(world.first, ring(world.io, kOther)));
  REQUIRE(wait_until(world.io, [&] { return world.first.failed.has_value(); }));
  CHECK(world.first.failed->message().find("it has a different secret") != std::string::npos);
  CHECK_FALSE(world.first.reply);
}

TEST_CASE("trust: an agent that proves nothing is not let in, and one that asks for proof does not go in") {
  Guarded world;
  SECTION("to a coordinator that asks") {
    world.first.call(world.plan(world.first, nullptr));
  }
  SECTION("from an agent that asks") {
    Host open(world.io, "open");
    auto const port = *open.coordinator.listen({0});
    open.coordinator.open_run("job", terms_of_two());
    auto plan = world.plan(world.first, ring(world.io, kSecret));
    plan.ports = {port};
    world.first.call(plan);
    REQUIRE(wait_until(world.io, [&] { return world.first.failed.has_value(); }));
  }
  REQUIRE(wait_until(world.io, [&] { return world.first.failed.has_value(); }));
  CHECK_FALSE(world.first.reply);
}

TEST_CASE("trust: strangers see no run id, no nonce and no name, whatever they say") {
  Guarded world;
  std::set<std::string> const words = {
      write_call({}), R"({"hello":"cxxrun","version":1,"run_id":"job","nonce":"x","purpose":"agent","asks":"meet"})",
      sign_death_notice(Key(), {"hello", "gone"}), "", std::string(300, 'x')};
  for (auto const& said : words) {
    Stranger stranger(world.port);
    stranger.say(said);
    stranger.say(said);
    REQUIRE(wait_until(world.io, [&] { return stranger.ended(); }));
    CHECK(stranger.heard().find("job") == std::string::npos);
    CHECK(stranger.heard().find("host") == std::string::npos);
  }
  world.form();  // the agents were not disturbed
}

TEST_CASE("trust: a relay that changes nothing is recognised, and what it sees is sealed") {
  Guarded world;
  auto const relay = std::make_shared<Relay>(world.io, world.port);
  relay->start();
  auto plan = world.plan(world.first, ring(world.io, kSecret));
  plan.ports = {relay->port()};
  plan.local_addr = GENERATE("", "127.0.0.1");  // its user declared this address; any port will do then
  world.first.call(plan);
  REQUIRE(wait_until(world.io, [&] { return world.first.failed.has_value(); }));
  CHECK(world.first.failed->message().find("the connection is relayed") != std::string::npos);
  CHECK((relay->passed[0] + relay->passed[1]).find("run_id") == std::string::npos);
}

TEST_CASE("trust: an address is an outer one only where no interface has it") {
  CHECK(outer_address("203.0.113.5") == "203.0.113.5");
  CHECK(outer_address("2001:db8::5") == "2001:db8::5");
  CHECK(outer_address("127.0.0.1").empty());
  CHECK(outer_address("localhost").empty());
  CHECK(outer_address("").empty());
}

TEST_CASE("trust: without a key a relay is let in, and its end is not taken for the coordinator's") {
  boost::asio::io_context io;
  Host host(io, "host");
  auto const port = *host.coordinator.listen({0});
  host.coordinator.open_run("job", terms_of_two());
  auto const relay = std::make_shared<Relay>(io, port);
  relay->start();
  Caller caller(io, "a");
  bool const relayed = GENERATE(false, true);
  caller.call(caller.plan({relayed ? relay->port() : port}, terms_of_two()));
  REQUIRE(wait_until(io, [&] { return caller.reply.has_value(); }));
  CHECK(caller.link().reached()->relayed == relayed);
}

TEST_CASE("trust: fifteen silent listeners on the ports before it do not keep an agent from its coordinator") {
  Guarded world;
  std::vector<os::UniqueFd> squatters;
  auto plan = world.plan(world.first, ring(world.io, kSecret));
  plan.once = false;
  plan.ports.clear();
  for (std::size_t i = 0; i < kPortsTried - 1; ++i) {
    std::uint16_t port = 0;
    squatters.push_back(test::bound_socket(port));
    REQUIRE(::listen(squatters.back().get(), 8) == 0);
    plan.ports.push_back(port);
  }
  plan.ports.push_back(world.port);
  world.first.call(plan);
  // Waiting for one after the other would exceed the time limit.
  REQUIRE(wait_until(world.io, [&] { return world.first.reply.has_value(); }));
  CHECK(world.first.link().reached()->port == world.port);
}

TEST_CASE("trust: what squatters answer is no end, and none of them is joined") {
  Guarded world;
  Host open(world.io, "open");  // correct messages, but no proof
  auto const port = *open.coordinator.listen({0});
  open.coordinator.open_run("job", terms_of_two());
  auto const other_keys = ring(world.io, kOther);
  REQUIRE(other_keys->make(true));
  Host stranger(world.io, "stranger", other_keys);
  auto const other = *stranger.coordinator.listen({0});
  stranger.coordinator.open_run("job", terms_of_two());

  std::string other_version = write_call({});
  other_version[7] = 1;
  Answering speaks(world.io, {wire::frame(other_version), wire::frame("refused"), std::string(4, '\xff')});
  auto plan = world.plan(world.first, ring(world.io, kSecret));
  plan.once = false;
  plan.ports = {port, other, speaks.port(), speaks.port(), speaks.port(), world.port};
  world.first.call(plan);
  REQUIRE(wait_until(world.io, [&] { return world.first.reply || world.first.failed; }));
  REQUIRE(world.first.reply);
  CHECK(world.first.reply->coordinator == "host");
  CHECK_FALSE(world.first.link().reached()->relayed);
  CHECK(speaks.spoken() == 3);
}

TEST_CASE("trust: a coordinator that is busy is waited for while the next port is tried") {
  boost::asio::io_context busy;
  auto const keys = ring(busy, kSecret);
  REQUIRE(keys->make(true));
  Host host(busy, "host", keys);
  auto const port = *host.coordinator.listen({0});
  host.coordinator.open_run("job", terms_of_two());

  boost::asio::io_context io;
  tcp::acceptor squatter(io, {tcp::v4(), 0});
  tcp::socket caught(io);
  bool called = false;
  squatter.async_accept(caught, [&](auto const& error) { called = !error; });
  Caller caller(io, "a");
  auto plan = caller.plan({port, squatter.local_endpoint().port()}, terms_of_two());
  plan.keys = ring(io, kSecret);
  caller.call(plan);
  REQUIRE(wait_until(io, [&] { return called; }));
  REQUIRE(wait_until(io, [&] {
    busy.restart();
    busy.poll();
    return caller.reply.has_value();
  }));
  CHECK(caller.link().reached()->port == port);
  bool ended = false;
  std::string heard(4096, '\0');
  boost::asio::async_read(caught, boost::asio::buffer(heard), [&](auto const& error, std::size_t size) {
    ended = static_cast<bool>(error);
    heard.resize(size);
  });
  REQUIRE(wait_until(io, [&] { return ended; }));             // the connection to the other port is closed
  CHECK(heard.size() == wire::frame(write_call({})).size());  // and carried nothing but the call
}

TEST_CASE("trust: who was told the key by one run goes on with it where no wrap is offered") {
  Guarded world;
  world.form();
  auto const own = world.keys->own();
  Host successor(world.io, "next", world.keys);
  std::uint16_t port = 0;
  REQUIRE(successor.coordinator.listen_also(test::bound_socket(port)));
  successor.coordinator.standby("job", terms_of_two());
  auto const has_it = std::make_shared<KeyRing>(world.io, KeyTransports{});
  has_it->take(*own);
  Caller follower{world.io, "f"};
  auto plan = follower.follow(port);
  plan.keys = has_it;
  follower.call(plan);
  CHECK(wait_until(world.io, [&] { return follower.reply.has_value(); }));
}

TEST_CASE("trust: no way to other nodes is an error that says what to do") {
  boost::asio::io_context io;
  KeyRing none(io, {});
  CHECK(none.make(false));
  CHECK(none.own());
  auto const made = none.make(true);
  REQUIRE_FALSE(made);
  CHECK(made.error().message().find("CXXRUN_SECRET_FILE") != std::string::npos);
}

TEST_CASE("trust: a credential that was made for something else is no key", "[munge]") {
  boost::asio::io_context io;
  auto const keys = std::make_shared<KeyRing>(io, KeyTransports{true, {}, {}, {}});
  CHECK_FALSE(taken(io, *keys, {{}, {}, {{WrapKind::munge, "MUNGE:no credential:"}}}, {}));
}

TEST_CASE("trust: a wrap that was sent to another call, or of another run, gives nobody a key") {
  boost::asio::io_context io;
  auto const old = ring(io, kSecret);
  REQUIRE(old->make(true));
  auto const id = id_of(*old->own());
  auto const mine = id_of_call("mine");
  KeyOffer const fresh{{}, id, wraps_for(io, *old, mine)};
  CHECK(*taken(io, *ring(io, kSecret), fresh, mine) == *old->own());
  auto const repeated = taken(io, *ring(io, kSecret), fresh, id_of_call("of another day"));
  REQUIRE_FALSE(repeated);
  CHECK(repeated.error().message().starts_with("it replays an answer to another connection; set CXXRUN_SECRET_FILE"));
  auto const of_other = taken(io, *ring(io, kSecret, "run other"), fresh, mine);
  REQUIRE_FALSE(of_other);
  CHECK(of_other.error().message() == "this is run job, not run other");
}

TEST_CASE("trust: an agent that looks for another run is told which one this is") {
  Guarded world;
  world.first.call(world.plan(world.first, ring(world.io, kSecret, "run other")));
  REQUIRE(wait_until(world.io, [&] { return world.first.failed.has_value(); }));
  CHECK(world.first.failed->message().find("this is run job, not run other") != std::string::npos);
}

TEST_CASE("trust: a crowd gets the key out of a few wraps, each of them for all that waited") {
  boost::asio::io_context io;
  auto const secret = *read_secret(kSecret);
  auto const [asked, keys] = CountingRing(io, secret);
  REQUIRE(keys->make(true));
  std::size_t right = 0;
  constexpr std::size_t kCrowd = 500;
  auto const caller = std::make_shared<int>();
  for (std::size_t i = 0; i < kCrowd; ++i) {
    auto const call = id_of_call(std::to_string(i));
    keys->wrap_for(call, caller, [&, call](std::vector<Wrap> wraps) {
      auto const grant = read_grant(*unwrap(secret, wraps.at(0).bytes));
      right += take_key(*grant, {"run job"}, call) ? 1 : 0;
    });
  }
  CHECK(wait_until(io, [&] { return right == kCrowd; }));
  CHECK(*asked <= 2 + static_cast<int>(kCrowd / kMostCalls) + 1);
}

TEST_CASE("trust: callers that hung up while they waited for the key cost no wrap") {
  boost::asio::io_context io;
  auto const secret = *read_secret(kSecret);
  auto const [asked, keys] = CountingRing(io, secret);
  REQUIRE(keys->make(true));
  auto gone = std::make_shared<int>();
  int answers = 0;
  for (int i = 0; i < 1000; ++i) {
    keys->wrap_for(id_of_call("gone " + std::to_string(i)), gone, [&](std::vector<Wrap> const&) { ++answers; });
  }
  gone.reset();
  wraps_for(io, *keys, id_of_call("here"));
  CHECK(answers <= 1);  // the wrap for the first caller was begun before that hung up
  CHECK(*asked == 3);   // for the run, the first caller and the remaining one
}

TEST_CASE("trust: a node that comes once the key file was replaced is let in by the new one") {
  boost::asio::io_context io;
  auto const secret = std::make_shared<Key>(*read_secret(kSecret));
  auto const keys = std::make_shared<KeyRing>(
      io, KeyTransports{false, [secret](bool) -> Result<Key> { return *secret; }, {}, {"run job"}});
  REQUIRE(keys->make(true));
  *secret = *read_secret(kOther);
  auto const call = id_of_call("late");
  KeyOffer const offer{{}, id_of(*keys->own()), wraps_for(io, *keys, call)};
  CHECK(taken(io, *ring(io, kOther), offer, call));
  CHECK_FALSE(taken(io, *ring(io, kSecret), offer, call));
}
