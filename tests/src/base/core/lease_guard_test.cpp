#include "src/base/core/lease_guard.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;

namespace {

constexpr LeaseGuardTerms kTerms{Millis{4000}, Millis{5000}};
TimePoint const t0{std::chrono::hours{1}};

}  // namespace

TEST_CASE("lease guard: sleeps for ever without a lease", "[unit]") {
  auto const step = look({}, std::nullopt, t0, kTerms);

  CHECK(step.what == Enforce::nothing);
  CHECK(!step.next.wake);
}

TEST_CASE("lease guard: wakes a little after the end of a lease, and later when it was renewed", "[unit]") {
  auto const first = look({}, t0 + Millis{4000}, t0, kTerms);
  auto const second = look(first.next, t0 + Millis{5000}, *first.next.wake, kTerms);

  CHECK(first.next.wake == t0 + Millis{4400});
  CHECK(second.what == Enforce::nothing);
  CHECK(second.next.wake == t0 + Millis{5400});
}

TEST_CASE("lease guard: freezes when a lease runs out, again and again, and kills after the timeout", "[unit]") {
  auto step = look({}, t0, t0 - Millis{100}, kTerms);
  TimePoint const frozen = *step.next.wake;
  TimePoint now = frozen;
  step = look(step.next, t0, now, kTerms);
  CHECK(step.what == Enforce::freeze);

  int looks = 0;
  while (step.what == Enforce::freeze && looks++ < 100) {
    CHECK(*step.next.wake <= now + Millis{500});  // processes started meanwhile are frozen soon
    now = *step.next.wake;
    step = look(step.next, t0, now, kTerms);
  }
  CHECK(now == frozen + Millis{5400});  // the agent gets to act first
  CHECK(step.what == Enforce::kill);
  step = look(step.next, t0, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::kill);
  step = look(step.next, std::nullopt, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::nothing);
  CHECK(!step.next.wake);
}

TEST_CASE("lease guard: thaws what it has frozen when a new lease comes, once", "[unit]") {
  auto step = look({}, t0, t0 - Millis{100}, kTerms);
  step = look(step.next, t0, t0 + Millis{400}, kTerms);
  REQUIRE(step.what == Enforce::freeze);

  step = look(step.next, t0 + Millis{5000}, t0 + Millis{1000}, kTerms);
  CHECK(step.what == Enforce::thaw);
  CHECK(step.next.wake == t0 + Millis{5400});
  step = look(step.next, t0 + Millis{6000}, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::nothing);
}

TEST_CASE("lease guard: one that was suspended freezes, and gives the whole timeout", "[unit]") {
  auto step = look({}, t0 + Millis{4000}, t0, kTerms);
  bool const frozen_before = GENERATE(false, true);
  if (frozen_before) {
    step = look(step.next, t0 + Millis{4000}, *step.next.wake, kTerms);
  }
  TimePoint now = t0 + Millis{600'000};
  step = look(step.next, t0 + Millis{4000}, now, kTerms);
  CHECK(step.what == Enforce::freeze);
  CHECK(step.next.frozen_until == now + Millis{5400});
}
