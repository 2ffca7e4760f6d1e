#include "rendezvous/membership/events.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

MemberEnds const kEnds{"own", "10.0.0.2", "10.0.0.1"};

FollowerInfo told_by(std::string incarnation) {
  FollowerInfo said;
  said.node.incarnation = std::move(incarnation);
  said.node.coordinates = true;  // what an agent says of this counts for nothing
  said.node.reached_at = "127.0.0.1";
  return said;
}

}  // namespace

TEST_CASE("events: what the connection shows is filled in, the first time and each further time", "[unit]") {
  bool const own = GENERATE(true, false);
  auto* const take = GENERATE(&event_of_first, &event_of_further);
  auto const word = (*take)(7, told_by(own ? "own" : "another"), kEnds);
  REQUIRE(word);
  auto const& called = std::get<FollowerCalled>(*word);
  CHECK(called.agent == 7);
  CHECK(called.follower_info.node.coordinates == own);
  CHECK(called.follower_info.node.reached_at == "10.0.0.1");
  CHECK(called.follower_info.node.calls_from == "10.0.0.2");
}

TEST_CASE("events: an agent begins with a join or with what it knows, and goes on with neither a join nor a notice",
          "[unit]") {
  Join join;
  join.node.incarnation = "own";
  auto const joined = event_of_first(1, join, kEnds);
  REQUIRE(joined);
  CHECK(std::get<Joined>(*joined).node.coordinates);
  CHECK(std::get<Joined>(*joined).node.calls_from == "10.0.0.2");
  CHECK_FALSE(event_of_first(1, Ack{1}, kEnds));
  CHECK_FALSE(event_of_first(1, Gone{1, 0}, kEnds));

  CHECK_FALSE(event_of_further(1, join, kEnds));
  CHECK_FALSE(event_of_further(1, Gone{1, 0}, kEnds));
  auto const ack = event_of_further(1, Ack{3}, kEnds);
  REQUIRE(ack);
  CHECK(std::get<Ack>(std::get<Said>(*ack).message).number == 3);
}
