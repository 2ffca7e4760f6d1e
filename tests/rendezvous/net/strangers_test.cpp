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

TEST_CASE("strangers: there is room for so many, and then the oldest of the largest crowd goes at once", "[unit]") {
  Strangers strangers = full();
  CHECK(room(strangers, kNow).goes == 21);
  CHECK(room(strangers, kNow).hold == Millis{0});
  leave(strangers, 21, "crowd");
  CHECK_FALSE(room(strangers, kNow).goes);
  come(strangers, 9999, "node1", kNow);
  CHECK(room(strangers, kNow).goes == 22);
}

TEST_CASE("strangers: who has spoken stays while others say nothing", "[unit]") {
  Strangers strangers = full();
  for (std::uint64_t id = 21; id <= Strangers::kMost; ++id) {
    speak(strangers, id, "crowd");
  }
  auto const goes = room(strangers, kNow).goes;
  REQUIRE(goes);
  CHECK(*goes <= 20);
}

TEST_CASE("strangers: when all have spoken nobody goes before its time", "[unit]") {
  Strangers strangers = full();
  for (std::uint64_t id = 1; id <= Strangers::kMost; ++id) {
    speak(strangers, id, id <= 20 ? "node" + std::to_string(id % 10) : "crowd");
  }
  CHECK(strangers.unspoken.empty());
  CHECK_FALSE(room(strangers, kNow).goes);
  CHECK(room(strangers, kNow).hold > Millis{0});
  CHECK(room(strangers, kNow + Strangers::kGrace).goes == 1);
  CHECK(room(strangers, kNow + Strangers::kGrace).hold == Millis{0});
}
