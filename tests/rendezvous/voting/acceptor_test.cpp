#include "rendezvous/voting/acceptor.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

Decree decree(std::uint64_t after, std::uint64_t number, std::uint32_t size = 3) {
  Decree value;
  value.after = after;
  value.number = number;
  value.size = size;
  return value;
}

Acceptor voter() {
  return on_decided({}, 4);
}

}  // namespace

TEST_CASE("acceptor: a higher ballot is promised, a lower one is not, the same one is again", "[unit]") {
  auto const first = on_vote_request(voter(), 4, {2, 1});
  CHECK(first.yes);
  CHECK(first.next.promised == Ballot{2, 1});
  CHECK(on_vote_request(first.next, 4, {2, 1}).yes);
  auto const lower = on_vote_request(first.next, 4, {2, 0});
  CHECK_FALSE(lower.yes);
  CHECK(lower.next == first.next);
  CHECK(on_vote_request(first.next, 4, {2, 2}).yes);
  CHECK(on_vote_request(first.next, 4, {3, 0}).yes);
}

TEST_CASE("acceptor: round 1 is never asked for, and no other instance is", "[unit]") {
  CHECK_FALSE(on_vote_request(voter(), 4, {1, 7}).yes);
  CHECK_FALSE(on_vote_request(voter(), 4, {}).yes);
  CHECK_FALSE(on_vote_request(voter(), 3, {9, 0}).yes);
  CHECK_FALSE(on_vote_request(voter(), 5, {9, 0}).yes);
}

TEST_CASE("acceptor: round 1 is accepted until somebody else was promised", "[unit]") {
  auto const accepted = on_proposal(voter(), {1, 0}, decree(4, 5));
  CHECK(accepted.yes);
  CHECK(accepted.next.promised == Ballot{1, 0});
  REQUIRE(accepted.next.accepted);
  CHECK(*accepted.next.accepted == AcceptedDecree{{1, 0}, decree(4, 5)});
  auto const promised = on_vote_request(voter(), 4, {2, 1}).next;
  auto const refused = on_proposal(promised, {1, 0}, decree(4, 5));
  CHECK_FALSE(refused.yes);
  CHECK(refused.next == promised);
}

TEST_CASE("acceptor: what was accepted stays known under a higher promise, and can be replaced by its owner",
          "[unit]") {
  auto acceptor = on_proposal(voter(), {1, 0}, decree(4, 5)).next;
  acceptor = on_vote_request(acceptor, 4, {2, 1}).next;
  CHECK(acceptor.accepted == AcceptedDecree{{1, 0}, decree(4, 5)});
  auto const again = on_proposal(acceptor, {2, 1}, decree(4, 5));
  CHECK(again.yes);
  CHECK(again.next.accepted == AcceptedDecree{{2, 1}, decree(4, 5)});
}

TEST_CASE("acceptor: a proposal may carry a ballot that this voter was not asked for", "[unit]") {
  auto const answer = on_proposal(on_vote_request(voter(), 4, {2, 1}).next, {3, 2}, decree(4, 6));
  CHECK(answer.yes);
  CHECK(answer.next.promised == Ballot{3, 2});
}

TEST_CASE("acceptor: one ballot carries one decree", "[unit]") {
  auto const accepted = on_proposal(voter(), {1, 0}, decree(4, 5)).next;
  CHECK(on_proposal(accepted, {1, 0}, decree(4, 5)).yes);
  auto const second = on_proposal(accepted, {1, 0}, decree(4, 5, 2));
  CHECK_FALSE(second.yes);
  CHECK(second.next == accepted);
}

TEST_CASE("acceptor: a proposal for another instance, backwards or without a ballot is refused", "[unit]") {
  CHECK_FALSE(on_proposal(voter(), {2, 0}, decree(3, 5)).yes);
  CHECK_FALSE(on_proposal(voter(), {2, 0}, decree(4, 4)).yes);
  CHECK_FALSE(on_proposal(voter(), {}, decree(4, 5)).yes);
}

TEST_CASE("acceptor: a later decided generation begins an empty instance, an older one changes nothing", "[unit]") {
  auto const used = on_proposal(voter(), {2, 1}, decree(4, 5)).next;
  auto const next = on_decided(used, 5);
  CHECK(next.after == 5);
  CHECK(next.promised == Ballot{});
  CHECK_FALSE(next.accepted);
  CHECK(on_decided(used, 4) == used);
  CHECK(on_decided(used, 3) == used);
}
