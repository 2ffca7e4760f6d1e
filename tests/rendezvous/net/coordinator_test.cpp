#include "rendezvous/net/coordinator.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/coordinator_world.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::bound_socket;
using cxxrun::test::Caller;
using cxxrun::test::has;
using cxxrun::test::Host;
using cxxrun::test::Stranger;
using cxxrun::test::wait_until;

namespace {

Terms terms(std::uint32_t nodes = 1) {
  Terms terms;
  terms.min_nodes = nodes;
  terms.max_nodes = nodes;
  terms.heartbeat_timeout = Millis{0};
  return terms;
}

std::string hello(std::string const& nonce, Hello::Purpose purpose = Hello::Purpose::agent,
                  Hello::Asks asks = Hello::Asks::meet) {
  return encode(Hello{kProtocolVersion, "job", nonce, purpose, asks});
}

/// A port that has just been free.
std::uint16_t unused_port() {
  std::uint16_t port = 0;
  bound_socket(port);
  return port;
}

/// A coordinator with one run of two agents, and the first of them.
struct OneAgent {
  OneAgent() {
    auto const bound = host->coordinator.listen({0});
    REQUIRE(bound);
    port = *bound;
    host->coordinator.open_run("job", terms(2));
    caller.call(caller.plan({port}, terms(2)));
    REQUIRE(wait_until(io, [&] { return caller.reply.has_value(); }));
  }
  boost::asio::io_context io;
  std::optional<Host> host{std::in_place, io};
  Caller caller{io, "a"};
  std::uint16_t port = 0;
};

}  // namespace

TEST_CASE("a run on standby lets in who follows, and nobody who joins") {
  boost::asio::io_context io;
  Host host(io);
  std::uint16_t port = 0;
  REQUIRE(host.coordinator.listen_also(bound_socket(port)));
  host.coordinator.standby("job", terms(2));
  CHECK_FALSE(host.coordinator.leads());

  Caller joins(io, "a");
  auto plan = joins.plan({port}, terms(2));
  plan.once = true;
  joins.call(plan);
  REQUIRE(wait_until(io, [&] { return joins.failed.has_value(); }));
  CHECK(has(joins.failed->message(), "another agent coordinates job"));
  CHECK_FALSE(joins.refused);

  Caller follows(io, "b");
  follows.call(follows.follow(port));
  REQUIRE(wait_until(io, [&] { return follows.reply.has_value(); }));
  CHECK(follows.reply->coordinator == "host");
  follows.link().send(FollowerInfo{});
  follows.link().send_beat({1, 0, 0});
  CHECK(wait_until(io, [&] { return !follows.acks.empty(); }));
  CHECK_FALSE(follows.closed);
}

TEST_CASE("one coordinator takes calls on its rendezvous port and on its standby port") {
  for (bool const v6 : {true, false}) {
    boost::asio::io_context io;
    Host host(io);
    std::uint16_t standby = 0;
    auto const port = host.coordinator.listen({0});
    REQUIRE(port);
    REQUIRE(host.coordinator.listen_also(bound_socket(standby, v6)));
    host.coordinator.open_run("job", terms(2));
    CHECK(host.coordinator.leads());
    Caller first(io, "host");
    Caller second(io, "b");
    first.call(first.plan({*port}, terms(2)));
    second.call(second.plan({standby}, terms(2)));
    REQUIRE(wait_until(io, [&] { return first.heard<Prepare>() && second.heard<Prepare>(); }));
    CHECK(first.heard<Prepare>()->generation.group_size == 2);
  }
}

TEST_CASE("who hosts is the agent whose incarnation the coordinator has, whatever it says") {
  boost::asio::io_context io;
  Host host(io);
  auto const port = host.coordinator.listen({0});
  REQUIRE(port);
  host.coordinator.open_run("job", terms(1));
  Caller liar(io, "somebody");
  auto plan = liar.plan({*port}, terms(1));
  plan.node.coordinates = true;
  plan.once = true;
  liar.call(plan);
  REQUIRE(wait_until(io, [&] { return liar.failed.has_value(); }));
  CHECK(has(liar.failed->message(), "another job job of one node has this port"));
}

TEST_CASE("a successor's port at which nobody listens is known at once, one that does not answer after the deadline") {
  boost::asio::io_context io;
  SECTION("nobody listens") {
    Caller caller(io, "a");
    caller.call(caller.follow(unused_port()));
    REQUIRE(wait_until(io, [&] { return caller.failed.has_value(); }));
    CHECK(caller.refused);
  }
  SECTION("it accepts and says nothing") {
    std::uint16_t port = 0;
    auto const socket = bound_socket(port);
    REQUIRE(::listen(socket.get(), 1) == 0);
    Caller caller(io, "a");
    auto plan = caller.follow(port);
    plan.patience = Millis{50};
    caller.call(plan);
    REQUIRE(wait_until(io, [&] { return caller.failed.has_value(); }));
    CHECK_FALSE(caller.refused);
  }
}

TEST_CASE("the end of a connection says whether it was in order") {
  OneAgent job;
  job.host.reset();
  REQUIRE(wait_until(job.io, [&] { return job.caller.closed.has_value(); }));
  CHECK(*job.caller.closed == "it hung up");
  CHECK(job.caller.ended == Ended::goodbye);
}

TEST_CASE("a beat that is none ends its connection, and the agent's stays") {
  OneAgent job;
  Stranger beats(job.port);
  beats.say(hello("a", Hello::Purpose::beat));
  beats.say("[true]");
  REQUIRE(wait_until(job.io, [&] { return beats.ended(); }));
  job.caller.link().send_beat({1, 0, 0});
  CHECK(wait_until(job.io, [&] { return !job.caller.acks.empty(); }));
  CHECK(job.caller.acks.at(0).echo == 1);
  CHECK_FALSE(job.caller.closed);
}

TEST_CASE("beats find a fresh connection when the one they had has ended") {
  OneAgent job;
  job.caller.link().send_beat({1, 0, 0});
  REQUIRE(wait_until(job.io, [&] { return job.caller.acks.size() == 1; }));
  Stranger replaces(
      job.port);  // takes the place of the agent's connection for beats, so that the coordinator closes that
  replaces.say(hello("a", Hello::Purpose::beat));
  replaces.say(encode(Beat{7, 0, 0}));
  REQUIRE(wait_until(job.io, [&] { return has(replaces.heard(), "7"); }));
  std::int64_t sent = 1;
  auto next = Clock::now();
  REQUIRE(wait_until(job.io, [&] {
    if (Clock::now() >= next) {
      job.caller.link().send_beat({++sent, 0, 0});
      next += Millis{20};
    }
    return job.caller.acks.size() > 1;
  }));
}

TEST_CASE("the death notice of an agent's parent is taken and its connection ended") {
  boost::asio::io_context io;
  Host host(io);
  std::uint16_t port = 0;
  REQUIRE(host.coordinator.listen_also(bound_socket(port)));
  host.coordinator.standby("job", terms(2));
  Stranger parent(port);
  parent.say(hello("dead", Hello::Purpose::death_notice));
  parent.say(encode(ToCoordinator(Gone{1, 0})));
  REQUIRE(wait_until(io, [&] { return parent.ended(); }));
  auto const reply = decode<HelloReply>(parent.heard().substr(4));
  REQUIRE(reply);
  CHECK(reply->why == HelloReply::Why::accepted);
}

TEST_CASE("a job forms among strangers that say nothing, half of it, too much or rubbish") {
  boost::asio::io_context io;
  Host host(io);
  auto const port = host.coordinator.listen({0});
  REQUIRE(port);
  host.coordinator.open_run("job", terms(2));
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 300; ++i) {
    auto& stranger = *strangers.emplace_back(std::make_unique<Stranger>(*port));
    REQUIRE(stranger.connected());
    switch (i % 6) {
      case 0: break;                                                // silence
      case 1: stranger.write(std::string("\0\0\1", 3)); break;      // half a length
      case 2: stranger.write("GET / HTTP/1.1\r\n\r\n"); break;      // a length above the limit
      case 3: stranger.say("{\"hello\":\"cxxrun\""); break;         // not JSON
      case 4: stranger.say(hello("x" + std::to_string(i))); break;  // a hello without a join
      case 5: stranger.write(std::string("\0\1\0\0{", 5)); break;   // announces 64 KiB before its hello
    }
  }
  Caller first(io, "host");
  Caller second(io, "b");
  first.call(first.plan({*port}, terms(2)));
  second.call(second.plan({*port}, terms(2)));
  CHECK(wait_until(io, [&] { return first.heard<Prepare>() && second.heard<Prepare>(); }));
  for (std::size_t i = 0; i < strangers.size(); ++i) {
    if (i % 6 == 2 || i % 6 == 3 || i % 6 == 5) {
      INFO(i);
      CHECK(wait_until(io, [&] { return strangers[i]->ended(); }));
    }
  }
}

TEST_CASE("a caller that announces more than a greeting needs goes at once, and not when its time is up") {
  boost::asio::io_context io;
  Host host(io);
  auto const port = host.coordinator.listen({0});
  REQUIRE(port);
  Stranger silent(*port);
  Stranger boasts(*port);
  boasts.write(std::string("\0\1\0\0{", 5));
  REQUIRE(wait_until(io, [&] { return boasts.ended(); }));
  CHECK_FALSE(silent.ended());
}

TEST_CASE("more silent strangers than a port holds wait their turn, and nobody is kept out") {
  boost::asio::io_context io;
  Host host(io);
  auto const port = host.coordinator.listen({0});
  REQUIRE(port);
  host.coordinator.open_run("job", terms(1));
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 700; ++i) {
    REQUIRE(strangers.emplace_back(std::make_unique<Stranger>(*port))->connected());
  }
  Caller caller(io, "host");
  caller.call(caller.plan({*port}, terms(1)));
  CHECK(wait_until(io, [&] { return caller.heard<Prepare>() != nullptr; }));
  CHECK(strangers.front()->ended());
}

TEST_CASE("messages of another kind, twice or from nowhere end their connection by name, never the coordinator") {
  boost::asio::io_context io;
  Host host(io);
  auto const port = host.coordinator.listen({0});
  REQUIRE(port);
  host.coordinator.open_run("job", terms(2));
  auto const ends = [&](std::vector<std::string> const& frames) {
    Stranger stranger(*port);
    for (auto const& frame : frames) {
      stranger.say(frame);
    }
    return wait_until(io, [&] { return stranger.ended(); });
  };
  Join join;
  join.node.incarnation = "twice";
  join.node.host = "twice";
  join.terms = terms(2);
  CHECK(ends({encode(ToCoordinator(join))}));                        // no hello
  CHECK(ends({hello("a"), encode(ToCoordinator(Ack{1, 0, 0}))}));    // an ack before it has joined
  CHECK(ends({hello("a"), encode(ToCoordinator(FollowerInfo{}))}));  // follows, but its hello asks to join
  CHECK(ends({hello("a", Hello::Purpose::agent, Hello::Asks::follow), encode(ToCoordinator(join))}));
  CHECK(ends({hello("a", Hello::Purpose::death_notice), encode(ToCoordinator(join))}));
  CHECK(ends({hello("a"), hello("a")}));  // the hello twice
  CHECK(ends({encode(Hello{kProtocolVersion - 1, "job", "a", Hello::Purpose::agent, Hello::Asks::meet})}));
  CHECK(ends({encode(Hello{kProtocolVersion, "other", "a", Hello::Purpose::agent, Hello::Asks::meet})}));
  Stranger twice(*port);
  twice.say(hello("twice"));
  twice.say(encode(ToCoordinator(join)));
  twice.say(encode(ToCoordinator(join)));  // a member's second join is ignored
  Caller host_agent(io, "host");
  host_agent.call(host_agent.plan({*port}, terms(2)));
  CHECK(wait_until(io, [&] { return host_agent.heard<Prepare>() != nullptr; }));
  CHECK_FALSE(twice.ended());
}
