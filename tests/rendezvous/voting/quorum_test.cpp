// Quorums and authority: which members may decide, and for how long.
#include "rendezvous/voting/lease.hpp"
#include "rendezvous/voting/proposer.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

Decree decree(std::uint32_t size, Tie tie = Tie::rank) {
  Decree value;
  value.number = 7;
  value.size = size;
  value.tie = tie;
  return value;
}

TimePoint at(int ms) {
  return TimePoint{} + Millis{ms};
}

/// Whether `members` of `decree` keep authority by the newest time that all of them have echoed.
bool keeps_by_echo(Decree const& value, std::set<std::uint32_t> const& members) {
  Authority authority;
  for (auto const rank : members) {
    echoed(authority, rank, at(100));
  }
  return authority_until(authority, value, lease_terms(5000ms)) == at(4100);
}

}  // namespace

TEST_CASE("quorum: two groups without a member in common never both decide, for every split of up to six", "[unit]") {
  for (std::uint32_t size = 1; size <= 6; ++size) {
    for (std::uint32_t mask = 0; mask < (1U << size); ++mask) {
      std::set<std::uint32_t> here;
      std::set<std::uint32_t> there;
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        ((mask >> rank & 1U) != 0 ? here : there).insert(rank);
      }
      CAPTURE(size, mask);
      auto const rank = decree(size);
      CHECK((majority(rank, here) == Majority::yes) != (majority(rank, there) == Majority::yes));
      auto const fence = decree(size, Tie::fence);
      CHECK((majority(fence, here) == Majority::half) == (here.size() == there.size()));
      CHECK_FALSE((majority(fence, here) == Majority::yes && majority(fence, there) != Majority::no));
    }
  }
}

TEST_CASE("quorum: ranks beyond the size do not vote, and nobody is asked for the first or without a quorum",
          "[unit]") {
  CHECK(majority(decree(4), {1, 7, 8}) == Majority::no);
  CHECK(majority(decree(4, Tie::none), {}) == Majority::yes);
  CHECK(majority(Decree{}, {}) == Majority::yes);
}

TEST_CASE("lease: its parts fit into the timeout, whatever that is", "[unit]") {
  for (int ms = 0; ms < 200'000; ++ms) {
    auto const terms = lease_terms(Millis{ms});
    REQUIRE((terms.beat * 6 <= terms.lease && terms.fence <= terms.timeout));
    REQUIRE((terms.lease + terms.kill) * 1001 <= terms.fence * 999);
  }
  CHECK(lease_terms(5000ms).fence == 4960ms);
  CHECK(lease_terms(0ms).fence == 0ms);
}

TEST_CASE("lease: authority counts like a quorum, for every set of members that has echoed", "[unit]") {
  for (auto const tie : {Tie::rank, Tie::fence}) {
    for (std::uint32_t size = 1; size <= 6; ++size) {
      for (std::uint32_t mask = 0; mask < (1U << size); ++mask) {
        std::set<std::uint32_t> members;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
          if ((mask >> rank & 1U) != 0) {
            members.insert(rank);
          }
        }
        CAPTURE(size, mask, static_cast<int>(tie));
        CHECK(keeps_by_echo(decree(size, tie), members) == (majority(decree(size, tie), members) == Majority::yes));
      }
    }
  }
}

TEST_CASE("lease: authority lasts from the newest time that enough have echoed, and an older echo is no news",
          "[unit]") {
  auto const terms = lease_terms(5000ms);
  Authority authority;
  CHECK_FALSE(authority_until(authority, decree(3), terms));
  echoed(authority, 0, at(300));
  CHECK_FALSE(authority_until(authority, decree(3), terms));
  echoed(authority, 2, at(200));
  CHECK(authority_until(authority, decree(3), terms) == at(4200));
  echoed(authority, 2, at(100));
  echoed(authority, 1, at(250));
  CHECK(authority_until(authority, decree(3), terms) == at(4250));
  CHECK(authority_until({}, decree(3, Tie::none), terms) == TimePoint::max());
  CHECK(authority_until({}, decree(3), lease_terms(0ms)) == TimePoint::max());
}
