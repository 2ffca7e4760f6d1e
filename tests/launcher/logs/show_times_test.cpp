#include "launcher/logs/show_times.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using namespace std::chrono_literals;

namespace {

constexpr TimePoint kStart{1000s};

/// How often a line is shown that grows every `pace` for `length`, and when it was shown last.
std::pair<int, TimePoint> shows(ShowTimes times, bool bar, Millis pace, Millis length) {
  int count = 0;
  TimePoint last{};
  bool waits = false;
  for (auto now = kStart; now < kStart + length + 10s; now += 10ms) {
    if (now < kStart + length && (now - kStart) % pace == 0ms) {
      times.came(now);
      waits = true;
    }
    if (waits && now >= times.due(bar && count > 0)) {
      times.shown(now);
      last = now;
      waits = false;
      ++count;
    }
  }
  return {count, last};
}

}  // namespace

TEST_CASE("show_times: an unfinished line is shown within a second, even one that moves all the time", "[unit]") {
  ShowTimes times(kUnfinishedFor);
  times.came(kStart);
  times.came(kStart + 700ms);
  CHECK(times.due(false) == kStart + kUnfinishedFor);
  CHECK(kUnfinishedFor < 1s);
}

TEST_CASE("show_times: a bar is shown every few seconds, whatever its pace, and soon after it has stopped", "[unit]") {
  for (auto const pace : {10ms, 250ms, 700ms, 1000ms, 1500ms}) {
    auto const [count, last] = shows(ShowTimes(kUnfinishedFor), true, pace, 60s);
    CHECK(count >= 12);
    CHECK(count <= 31);
    CHECK(last <= kStart + 60s + kBarAtLeast);
  }
  CHECK(shows(ShowTimes(kUnfinishedFor), true, 250ms, 3s).second <= kStart + 3750ms);
}

TEST_CASE("show_times: the first pieces of a line are shown within a second each, and dots at the pace of a bar",
          "[unit]") {
  CHECK(shows(ShowTimes(kUnfinishedFor), false, 1s, 3s).first == 3);
  auto const [count, last] = shows(ShowTimes(kUnfinishedFor), false, 1s, 60s);
  CHECK(count <= 33);
  CHECK(last <= kStart + 60s + kBarAtLeast);
  CHECK(shows(ShowTimes(kPromptFor), false, 1s, 60s).first == 60);
}

TEST_CASE("show_times: a line that may ask for an answer is shown at once, the next piece of it too, but not a bar",
          "[unit]") {
  ShowTimes times(kPromptFor);
  times.came(kStart);
  times.came(kStart + 30ms);
  CHECK(times.due(false) == kStart + kPromptFor);
  times.shown(kStart + 50ms);
  times.came(kStart + 60ms);
  CHECK(times.due(false) == kStart + 60ms + kPromptFor);
  CHECK(shows(ShowTimes(kPromptFor), true, 250ms, 60s).first <= 31);
}

TEST_CASE("show_times: the next line is as new as the first one was", "[unit]") {
  ShowTimes times(kUnfinishedFor);
  times.came(kStart);
  times.shown(kStart + 1s);
  times.ended();
  times.came(kStart + 1100ms);
  CHECK(times.due(false) == kStart + 1100ms + kUnfinishedFor);
}
