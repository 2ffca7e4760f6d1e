#include "rendezvous/history/budget.hpp"

#include "rendezvous/membership/membership.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace): the units under test
using namespace std::chrono_literals;

TEST_CASE("budget: without a window every restart counts for ever", "[unit]") {
  Policy policy;
  policy.max_restarts = 2;
  Restarts restarts;
  CHECK(restart_left(restarts, TimePoint{}, policy));
  consume_restart(restarts, TimePoint{}, policy);
  CHECK(restart_text(restarts, TimePoint{} + 1h, policy) == "restart 1 of 2");
  consume_restart(restarts, TimePoint{} + 1h, policy);
  CHECK_FALSE(restart_left(restarts, TimePoint{} + 1000h, policy));
}

TEST_CASE("budget: a restart leaves the window exactly when it is that old, and little is remembered", "[unit]") {
  Policy policy;
  policy.max_restarts = 2;
  policy.restart_window = 60s;
  Restarts restarts;
  for (int i = 0; i < 1000; ++i) {
    consume_restart(restarts, TimePoint{} + i * 30s, policy);
  }
  auto const last = TimePoint{} + 999 * 30s;
  CHECK(restarts.consumed == 1000);
  CHECK(restarts.newest.size() == 2);
  CHECK_FALSE(restart_left(restarts, last + 29999ms, policy));
  CHECK(restart_left(restarts, last + 30s, policy));
  CHECK(restart_text(restarts, last, policy) == "restart 1000 (2 of 2 within 60 s)");
}

TEST_CASE("budget: no restart allowed is none, with a window or without", "[unit]") {
  Policy policy;
  policy.max_restarts = 0;
  policy.restart_window = 60s;
  CHECK_FALSE(restart_left({}, TimePoint{}, policy));
}

TEST_CASE("budget: an elected coordinator counts the restarts it inherits as of now, once", "[unit]") {
  Policy policy;
  policy.max_restarts = 3;
  policy.restart_window = 60s;
  Restarts restarts;
  auto const now = TimePoint{} + 1000s;
  inherit_restarts(restarts, 2, now, policy);
  inherit_restarts(restarts, 2, now + 1s, policy);
  CHECK(restarts.consumed == 2);
  CHECK(restarts_counted(restarts, now + 59s, policy) == 2);
  CHECK(restarts_counted(restarts, now + 60s, policy) == 0);
  inherit_restarts(restarts, 1000, now, policy);
  CHECK_FALSE(restart_left(restarts, now, policy));
}

TEST_CASE("budget: who campaigns inherits what the lost coordinator consumed", "[unit]") {
  Policy policy;
  policy.min_nodes = 1;
  policy.max_nodes = policy.max_restarts = 3;
  policy.restart_window = 60s;
  State state;
  state.phase = Phase::standby;
  Campaign campaign;
  campaign.decided.number = 4;
  campaign.decided.size = 3;
  campaign.decided.restarts = 2;
  campaign.ballot = Ballot{2, 1};
  auto const now = TimePoint{} + 1000s;
  state = step(std::move(state), campaign, now, policy).next;
  CHECK(state.restarts.consumed == 2);
  CHECK(restarts_counted(state.restarts, now + 59s, policy) == 2);
  CHECK(restarts_counted(state.restarts, now + 60s, policy) == 0);
}
