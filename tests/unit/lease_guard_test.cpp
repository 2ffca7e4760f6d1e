#include "src/core/lease_guard.hpp"

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

TEST_CASE("lease guard: wakes often under a lease, and last of all a little after it", "[unit]") {
  auto const early = look({}, t0 + Millis{4000}, t0, kTerms);
  auto const late = look(early.next, t0 + Millis{4000}, t0 + Millis{3900}, kTerms);

  CHECK(early.next.wake == t0 + Millis{500});
  CHECK(late.what == Enforce::nothing);
  CHECK(late.next.wake == t0 + Millis{4400});
}

TEST_CASE("lease guard: kills when a lease runs out before its eyes, and again until it is renewed", "[unit]") {
  auto step = look({}, t0, t0 - Millis{100}, kTerms);

  step = look(step.next, t0, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::kill);
  step = look(step.next, t0, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::kill);
  step = look(step.next, std::nullopt, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::nothing);
}

TEST_CASE("lease guard: one that was suspended freezes, and thaws when a new lease comes", "[unit]") {
  auto step = look({}, t0 + Millis{4000}, t0, kTerms);

  step = look(step.next, t0 + Millis{4000}, t0 + Millis{30'000}, kTerms);
  CHECK(step.what == Enforce::freeze);
  step = look(step.next, t0 + Millis{4000}, t0 + Millis{30'500}, kTerms);
  CHECK(step.what == Enforce::nothing);
  step = look(step.next, t0 + Millis{34'000}, t0 + Millis{30'600}, kTerms);
  CHECK(step.what == Enforce::thaw);
  CHECK(step.next.wake == t0 + Millis{31'100});
}

TEST_CASE("lease guard: a lease that ends just after a suspension freezes too", "[unit]") {
  auto step = look({}, t0 + Millis{4000}, t0, kTerms);

  step = look(step.next, t0 + Millis{4000}, t0 + Millis{3900}, kTerms);
  CHECK(step.what == Enforce::nothing);
  step = look(step.next, t0 + Millis{4000}, *step.next.wake, kTerms);
  CHECK(step.what == Enforce::freeze);
}

TEST_CASE("lease guard: what stays frozen for the timeout is killed", "[unit]") {
  auto step = look({}, t0 + Millis{4000}, t0, kTerms);
  step = look(step.next, t0 + Millis{4000}, t0 + Millis{30'000}, kTerms);

  TimePoint now{};
  int looks = 0;
  while (step.what != Enforce::kill && looks++ < 100) {
    now = *step.next.wake;
    step = look(step.next, t0 + Millis{4000}, now, kTerms);
  }

  CHECK(now == t0 + Millis{35'000});
}
