#include "rendezvous/voting/silence.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;
using namespace cxxrun::rendezvous;

namespace {

constexpr TimePoint kStart{std::chrono::hours(1)};
SilencePolicy const kPolicy{Millis(5000)};

SilenceState first_heard(SilencePolicy const& policy = kPolicy) {
  SilenceState state;
  heard(state, 1, kStart, policy);
  return state;
}

/// Ticks at every due instant up to `until`; the peers in `beating` are heard just before each tick.
std::vector<AgentId> lost_until(SilenceState& state, TimePoint until, std::vector<AgentId> const& beating) {
  std::vector<AgentId> lost;
  while (state.due && *state.due <= until) {
    TimePoint const now = *state.due;
    for (AgentId const peer : beating) {
      heard(state, peer, now, kPolicy);
    }
    auto const result = tick(state, now, kPolicy);
    REQUIRE_FALSE(result.stalled);
    lost.insert(lost.end(), result.lost.begin(), result.lost.end());
  }
  return lost;
}

}  // namespace

TEST_CASE("silence: only who is silent for longer than the timeout is lost, at that very instant, and once", "[unit]") {
  SilenceState state = first_heard();
  heard(state, 2, kStart + Millis(123), kPolicy);
  CHECK(lost_until(state, kStart + Millis(5123 + 249), {1}).empty());
  CHECK(state.due == kStart + Millis(5123 + 250));
  CHECK(lost_until(state, kStart + Millis(5123 + 250), {1}) == std::vector<AgentId>{2});
  CHECK(lost_until(state, kStart + Millis(60'000), {1}).empty());
  CHECK(state.heard.size() == 1);
}

TEST_CASE("silence: a cut shorter than the timeout changes nothing, even one that came before a beat", "[unit]") {
  SilenceState state = first_heard();
  CHECK(lost_until(state, kStart + Millis(5200), {}).empty());
  heard(state, 1, kStart + Millis(5200), kPolicy);
  CHECK(lost_until(state, kStart + Millis(10'400), {}).empty());
}

TEST_CASE("silence: whoever was itself suspended judges nobody and gives everybody a fresh timeout", "[unit]") {
  SilenceState state = first_heard();
  heard(state, 2, kStart, kPolicy);
  TimePoint const back = kStart + std::chrono::hours(24);
  auto const result = tick(state, back, kPolicy);
  CHECK(result.stalled);
  CHECK(result.lost.empty());
  CHECK(lost_until(state, back + Millis(5249), {1}).empty());
  CHECK(lost_until(state, back + Millis(5250), {1}) == std::vector<AgentId>{2});
}

TEST_CASE("silence: who left is not lost as well, and without peers there is no timer", "[unit]") {
  SilenceState state = first_heard();
  REQUIRE(state.due == kStart + kPolicy.period());
  forget(state, 1);
  CHECK_FALSE(state.due);
  auto const result = tick(state, kStart + Millis(9000), kPolicy);
  CHECK(result.lost.empty());
  CHECK_FALSE(state.due);
}

TEST_CASE("silence: timeout 0 judges nobody", "[unit]") {
  SilenceState const state = first_heard(SilencePolicy{Millis{0}});
  CHECK(state.heard.empty());
  CHECK_FALSE(state.due);
}
