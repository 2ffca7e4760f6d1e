#include "rendezvous/net/pending_connections.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

constexpr TimePoint kNow{};

/// The most that there may be: two from each of some addresses, the rest from "crowd".
PendingConnections full() {
  PendingConnections pending;
  for (std::uint64_t id = 1; id <= PendingConnections::kMost; ++id) {
    add(pending, id, id <= 20 ? "node" + std::to_string(id % 10) : "crowd", kNow);
  }
  return pending;
}

}  // namespace

TEST_CASE("strangers: there is room for so many, and then the oldest of the largest crowd goes", "[unit]") {
  PendingConnections pending = full();
  auto const later = kNow + PendingConnections::kGrace[0];
  CHECK(next_admission(pending, later).evicts == 21);
  CHECK(next_admission(pending, later).hold == Millis{0});
  remove(pending, 21, "crowd");
  CHECK_FALSE(next_admission(pending, later).evicts);
  add(pending, 9999, "node1", later);
  CHECK(next_admission(pending, later).evicts == 22);
}

TEST_CASE("strangers: who has called stays while others say nothing, and who has proven itself while others have not",
          "[unit]") {
  PendingConnections pending = full();
  auto const all_say = [&](CallerStage said, std::uint64_t first) {
    for (std::uint64_t id = first; id <= PendingConnections::kMost; ++id) {
      advance(pending, id, id <= 20 ? "node" + std::to_string(id % 10) : "crowd", said);
    }
  };
  auto const late = kNow + Millis{60'000};
  all_say(CallerStage::called, 21);
  CHECK(next_admission(pending, late).evicts.value_or(0) <= 20);
  all_say(CallerStage::called, 1);
  CHECK(next_admission(pending, late).evicts == 21);
  all_say(CallerStage::proven, 21);
  CHECK(next_admission(pending, late).evicts.value_or(0) <= 20);
}

TEST_CASE("strangers: nobody goes before its time, and who has said more has more of it", "[unit]") {
  auto const [said, grace] = GENERATE(table<CallerStage, Millis>(
      {{CallerStage::nothing, Millis{20}}, {CallerStage::called, Millis{100}}, {CallerStage::proven, Millis{1000}}}));
  PendingConnections pending;
  for (std::uint64_t id = 1; id <= PendingConnections::kMost; ++id) {
    add(pending, id, "crowd", kNow);
    advance(pending, id, "crowd", said);
  }
  auto const early = next_admission(pending, kNow + grace - Millis{1});
  CHECK_FALSE(early.evicts);
  CHECK(early.hold == Millis{1});
  CHECK(next_admission(pending, kNow + grace).evicts == 1);
  CHECK(next_admission(pending, kNow + grace).hold == Millis{0});
}

TEST_CASE(
    "strangers: a crowd that calls again and again does not keep out who proves itself within a tenth of a second",
    "[unit]") {
  PendingConnections pending;
  std::uint64_t id = 0;
  TimePoint now = kNow;
  std::uint64_t const ours = 3000;  // the 3000th in the backlog, at an address of the crowd
  while (id < ours) {
    auto const admission = next_admission(pending, now);
    if (admission.evicts) {
      remove(pending, *admission.evicts, "crowd");
    }
    now += admission.hold;
    if (admission.hold == Millis{0}) {
      add(pending, ++id, "crowd", now);
      advance(pending, id, "crowd", CallerStage::called);
    }
  }
  CHECK(now - kNow <= Millis{600});
  auto const came = now;
  for (; now < came + Millis{99}; now += Millis{1}) {
    auto const admission = next_admission(pending, now);
    if (admission.evicts) {
      REQUIRE(*admission.evicts != ours);
      remove(pending, *admission.evicts, "crowd");
      add(pending, ++id, "crowd", now);
      advance(pending, id, "crowd", CallerStage::called);
    }
  }
}

TEST_CASE("strangers: who is gone is in no crowd any more, whatever it has said", "[unit]") {
  PendingConnections pending;
  for (auto const said : {CallerStage::nothing, CallerStage::called, CallerStage::proven}) {
    add(pending, 1, "node1", kNow);
    advance(pending, 1, "node1", said);
    remove(pending, 1, "node1");
    remove(pending, 1, "node1");
    advance(pending, 1, "node1", CallerStage::proven);
    CHECK(pending.all.empty());
    CHECK(std::all_of(pending.by_address.begin(), pending.by_address.end(), [](auto const& p) { return p.empty(); }));
  }
}
