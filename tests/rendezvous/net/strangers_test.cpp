#include "rendezvous/net/strangers.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

constexpr TimePoint kNow{};

/// As many as there is room for: two from each of some addresses, the rest from "crowd".
Strangers full() {
  Strangers strangers;
  for (std::uint64_t id = 1; id <= Strangers::kMost; ++id) {
    come(strangers, id, id <= 20 ? "node" + std::to_string(id % 10) : "crowd", kNow);
  }
  return strangers;
}

}  // namespace

TEST_CASE("strangers: there is room for so many, and then the oldest of the largest crowd goes", "[unit]") {
  Strangers strangers = full();
  auto const later = kNow + Strangers::kGrace[0];
  CHECK(room(strangers, later).goes == 21);
  CHECK(room(strangers, later).hold == Millis{0});
  leave(strangers, 21, "crowd");
  CHECK_FALSE(room(strangers, later).goes);
  come(strangers, 9999, "node1", later);
  CHECK(room(strangers, later).goes == 22);
}

TEST_CASE("strangers: who has called stays while others say nothing, and who has proven itself while others have not",
          "[unit]") {
  Strangers strangers = full();
  auto const all_say = [&](Shown said, std::uint64_t first) {
    for (std::uint64_t id = first; id <= Strangers::kMost; ++id) {
      speak(strangers, id, id <= 20 ? "node" + std::to_string(id % 10) : "crowd", said);
    }
  };
  auto const late = kNow + Millis{60'000};
  all_say(Shown::called, 21);
  CHECK(room(strangers, late).goes.value_or(0) <= 20);
  all_say(Shown::called, 1);
  CHECK(room(strangers, late).goes == 21);
  all_say(Shown::proven, 21);
  CHECK(room(strangers, late).goes.value_or(0) <= 20);
}

TEST_CASE("strangers: nobody goes before its time, and who has said more has more of it", "[unit]") {
  auto const [said, grace] = GENERATE(table<Shown, Millis>(
      {{Shown::nothing, Millis{20}}, {Shown::called, Millis{100}}, {Shown::proven, Millis{1000}}}));
  Strangers strangers;
  for (std::uint64_t id = 1; id <= Strangers::kMost; ++id) {
    come(strangers, id, "crowd", kNow);
    speak(strangers, id, "crowd", said);
  }
  auto const early = room(strangers, kNow + grace - Millis{1});
  CHECK_FALSE(early.goes);
  CHECK(early.hold == Millis{1});
  CHECK(room(strangers, kNow + grace).goes == 1);
  CHECK(room(strangers, kNow + grace).hold == Millis{0});
}

TEST_CASE(
    "strangers: a crowd that calls again and again does not keep out who proves itself within a tenth of a second",
    "[unit]") {
  Strangers strangers;
  std::uint64_t id = 0;
  TimePoint now = kNow;
  std::uint64_t const ours = 3000;  // it is the 3000th in the backlog, at an address from which the crowd calls, too
  while (id < ours) {
    auto const admission = room(strangers, now);
    if (admission.goes) {
      leave(strangers, *admission.goes, "crowd");
    }
    now += admission.hold;
    if (admission.hold == Millis{0}) {
      come(strangers, ++id, "crowd", now);
      speak(strangers, id, "crowd", Shown::called);
    }
  }
  CHECK(now - kNow <= Millis{600});
  auto const came = now;
  for (; now < came + Millis{99}; now += Millis{1}) {
    auto const admission = room(strangers, now);
    if (admission.goes) {
      REQUIRE(*admission.goes != ours);
      leave(strangers, *admission.goes, "crowd");
      come(strangers, ++id, "crowd", now);
      speak(strangers, id, "crowd", Shown::called);
    }
  }
}

TEST_CASE("strangers: who is gone is in no crowd any more, whatever it has said", "[unit]") {
  Strangers strangers;
  for (auto const said : {Shown::nothing, Shown::called, Shown::proven}) {
    come(strangers, 1, "node1", kNow);
    speak(strangers, 1, "node1", said);
    leave(strangers, 1, "node1");
    leave(strangers, 1, "node1");
    speak(strangers, 1, "node1", Shown::proven);
    CHECK(strangers.all.empty());
    CHECK(
        std::all_of(strangers.by_address.begin(), strangers.by_address.end(), [](auto const& p) { return p.empty(); }));
  }
}
