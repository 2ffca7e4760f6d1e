// Which port an agent tries when, in virtual time: a stranger that holds one of them costs little, whatever it does.
#include "rendezvous/net/probing.hpp"

#include <vector>

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

constexpr TimePoint kBegin{};
constexpr Millis kNever = kForever;

/// What listens at a candidate.
struct Behind {
  bool connects = false;
  Millis answers = kNever;                   ///< after it was connected
  ProbeFailure with = ProbeFailure::silent;  ///< the answer, unless it is the coordinator
  bool ours = false;
};
Behind const kNobody{false, Millis{0}, ProbeFailure::refused};
Behind const kBlackHole{};
Behind const kSilent{true};
Behind const kWrongKey{true, Millis{1}, ProbeFailure::wrong};  // the same for another version and for an invalid hello
Behind const kLateRefusal{true, Millis{4900}, ProbeFailure::wrong};
Behind ours_after(Millis answer) {
  return {true, answer, ProbeFailure::wrong, true};
}

struct Outcome {
  std::optional<Candidate> joined;
  std::optional<GiveUp> gave_up;
  Millis after{0};
  std::size_t probes = 0;
  std::vector<std::size_t> by_candidate;
  bool refused = false;
};

/// One search among candidates that behave like this, driven as coordinator_link.cpp drives it.
Outcome search(std::vector<Behind> behind, Probing probing = {}, Candidate changes = 0, Millis change_at = kNever,
               Behind const& to = kNobody) {
  struct Answer {
    TimePoint at;
    std::uint64_t probe;
  };
  probing.count = behind.size();
  probing.next_at = kBegin;
  Outcome outcome;
  outcome.by_candidate.resize(behind.size());
  std::map<Candidate, Answer> coming;  // the end of each attempt
  TimePoint now = kBegin;
  bool changed = false;
  for (;;) {
    for (auto act = next_action(probing, now); !std::holds_alternative<std::monostate>(act);
         act = next_action(probing, now)) {
      if (auto const* const probe = std::get_if<Probe>(&act)) {
        REQUIRE_FALSE(coming.contains(probe->candidate));  // no candidate is called twice at once
        ++outcome.probes;
        ++outcome.by_candidate[probe->candidate];
        Behind const& there = behind[probe->candidate];
        coming[probe->candidate] = {now + there.answers, outcome.probes};
        if (there.connects) {
          connected(probing, probe->candidate, now);
        }
      } else if (auto const* const drop = std::get_if<Drop>(&act)) {
        coming.erase(drop->candidate);
      } else {
        outcome.gave_up = std::get<GiveUp>(act);
        outcome.after = std::chrono::duration_cast<Millis>(now - kBegin);
        outcome.refused = probing.refused;
        return outcome;
      }
    }
    auto const wake = due(probing);
    TimePoint then = wake.value_or(kBegin + kNever);
    std::optional<Candidate> first;
    for (auto const& [candidate, answer] : coming) {
      if (answer.at < then) {
        then = answer.at;
        first = candidate;
      }
    }
    REQUIRE(then < kBegin + kNever);  // there is always a next event
    REQUIRE(outcome.probes < 10'000);
    now = std::max(now, then);
    if (!changed && now >= kBegin + change_at) {
      changed = true;
      behind[changes] = to;
    }
    if (first) {
      if (behind[*first].ours) {
        outcome.joined = first;
        outcome.after = std::chrono::duration_cast<Millis>(now - kBegin);
        return outcome;
      }
      coming.erase(*first);
      failed(probing, *first, behind[*first].with, now);
    }
  }
}

std::vector<Behind> squatted(std::size_t squatters, Behind const& squatter, Behind const& last) {
  std::vector<Behind> all(squatters, squatter);
  all.push_back(last);
  return all;
}

Probing patient(Millis patience) {
  Probing probing;
  probing.patience = patience;
  probing.give_up_at = kBegin + patience;
  return probing;
}

}  // namespace

TEST_CASE("doors: a job whose coordinator answers on its first port calls nobody else", "[unit]") {
  auto const outcome = search(std::vector<Behind>{ours_after(Millis{3}), kNobody, kNobody}, patient(Millis{600'000}));
  CHECK(outcome.joined == 0);
  CHECK(outcome.probes == 1);
  CHECK(outcome.after == Millis{3});
}

TEST_CASE("doors: whoever holds the ports before the coordinator's costs 250 ms each at most", "[unit]") {
  struct Row {
    char const* what;
    Behind squatter;
    Millis each;
  };
  auto const row = GENERATE(values<Row>({
      {"accepts and says nothing", kSilent, Millis{250}},
      {"lets nothing through", kBlackHole, Millis{250}},
      {"refuses just before its time is over", kLateRefusal, Millis{250}},
      {"nobody", kNobody, Millis{0}},
      {"another key, or version, or no cxxrun at all", kWrongKey, Millis{1}},
  }));
  std::size_t const squatters = GENERATE(1U, 15U);
  INFO(row.what << " on " << squatters);
  auto const outcome = search(squatted(squatters, row.squatter, ours_after(Millis{3})), patient(Millis{600'000}));
  CHECK(outcome.joined == squatters);
  CHECK(outcome.after == row.each * squatters + Millis{3});
  CHECK(outcome.after < Millis{5000});
}

TEST_CASE("doors: with every port held, the one that becomes the coordinator's is found within 5 s", "[unit]") {
  auto const squatter = GENERATE(as<Behind>(), kSilent, kBlackHole, kWrongKey);
  Candidate const freed = GENERATE(0U, 7U, 15U);
  constexpr Millis kFreed{20'000};
  auto const outcome =
      search(std::vector<Behind>(16, squatter), patient(Millis{600'000}), freed, kFreed, ours_after(Millis{3}));
  CHECK(outcome.joined == freed);
  CHECK(outcome.after >= kFreed);
  CHECK(outcome.after <= kFreed + Millis{5003});
}

TEST_CASE("doors: a coordinator that answers late is not left for the next port", "[unit]") {
  auto const others = GENERATE(as<Behind>(), kNobody, kSilent, kWrongKey);
  auto behind = std::vector<Behind>(16, others);
  behind[0] = ours_after(Millis{4900});
  auto const outcome = search(behind, patient(Millis{600'000}));
  CHECK(outcome.joined == 0);
  CHECK(outcome.after == Millis{4900});
  CHECK(outcome.by_candidate[0] == 1);
  CHECK(outcome.probes <= 20);  // one per 250 ms, so that a thousand waiting agents are no flood
}

TEST_CASE("doors: an agent that waits for its first node looks twice a second, and then gives up", "[unit]") {
  auto const outcome = search(std::vector<Behind>(16, kNobody), patient(Millis{10'000}));
  REQUIRE(outcome.gave_up);
  CHECK_FALSE(outcome.gave_up->wrong);
  CHECK(outcome.after > Millis{10'000});
  CHECK(outcome.after <= Millis{10'500});
  CHECK(outcome.by_candidate[15] >= 20);
  CHECK(outcome.by_candidate[15] <= 30);
}

TEST_CASE("doors: silent squatters do not make an agent wait for longer than it wants, and 5 s", "[unit]") {
  auto const outcome = search(std::vector<Behind>(16, kSilent), patient(Millis{20'000}));
  REQUIRE(outcome.gave_up);
  CHECK_FALSE(outcome.gave_up->wrong);  // the coordinator may still come at one of the derived ports
  CHECK(outcome.after >= Millis{20'000});
  CHECK(outcome.after <= Millis{25'000});
}

TEST_CASE("doors: somebody else on the only port is an end after 10 s, and each address has its turn", "[unit]") {
  Probing only = patient(Millis{600'000});
  only.only_port = true;
  auto const outcome = search(std::vector<Behind>(2, kWrongKey), only);
  REQUIRE(outcome.gave_up);
  CHECK(outcome.gave_up->wrong);
  CHECK(outcome.after > Millis{10'000});
  CHECK(outcome.after < Millis{11'000});
  CHECK(search(squatted(1, kSilent, ours_after(Millis{3})), only).joined == 1);
}

TEST_CASE("doors: one that is called once is refused only where the host says so", "[unit]") {
  Probing once = patient(Millis{2000});
  once.once = true;
  auto const refused = search({kNobody, kNobody}, once);
  REQUIRE(refused.gave_up);
  CHECK(refused.after == Millis{0});
  CHECK(refused.refused);
  for (auto const& other : {kSilent, kBlackHole, kWrongKey}) {
    CHECK_FALSE(search({other}, once).refused);
    CHECK_FALSE(search({other, kNobody}, once).refused);
    CHECK_FALSE(search({kNobody, other}, once).refused);
    CHECK(search({other}, once).after <= once.patience);
    CHECK(search({other}, once).probes == 1);
  }
}

TEST_CASE("doors: who waits is told after 3 s, and not when it gives up anyway", "[unit]") {
  Probing probing = patient(Millis{600'000});
  probing.give_up_at = kBegin + probing.patience;
  CHECK_FALSE(is_long(probing, kBegin + Millis{2999}));
  CHECK(is_long(probing, kBegin + Millis{3000}));
  CHECK_FALSE(is_long(probing, probing.give_up_at));
}

TEST_CASE("doors: a host that refuses and one that does not answer have different remedies", "[unit]") {
  Probing probing = patient(Millis{2000});
  probing.refused = true;
  CHECK(not_found_line(probing, "node1:29400", "Connection refused") ==
        "no coordinator at node1:29400 within 2 s (Connection refused); the host is up, but nothing listens there: is "
        "the "
        "agent of the first node running on that host and port?");
  probing.refused = false;
  CHECK(not_found_line(probing, "node1", "no answer").find("through firewalls") != std::string::npos);
}

TEST_CASE("doors: one that is added has its turn at once, though all others are held", "[unit]") {
  Probing probing = patient(Millis{600'000});
  probing.count = 2;
  probing.next_at = kBegin;
  CHECK(next_action(probing, kBegin) == ProbeAction(Probe{0}));
  connected(probing, 0, kBegin);
  add(probing, 2, kBegin + Millis{1});
  CHECK(next_action(probing, kBegin + Millis{1}) == ProbeAction(Probe{2}));
  CHECK(next_action(probing, kBegin + Millis{1} + Probing::kStagger) == ProbeAction(Probe{3}));
}
