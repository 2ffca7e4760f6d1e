// The proposer: every cell of its table in docs/design/election.md, and what it adopts.
#include "rendezvous/voting/proposer.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

using Members = std::vector<std::uint32_t>;
using Event = std::function<Outcome(Proposer&)>;

Decree decree(std::uint64_t number) {
  Decree value;
  value.after = 1;
  value.number = number;
  value.size = 4;
  value.coordinator = 3;
  value.tie = Tie::fence;
  return value;
}

Outcome promise(Proposer& proposer, Members const& members, std::optional<AcceptedDecree> first = {}) {
  for (auto const member : members) {
    hear_promise(proposer, member, std::exchange(first, {}));
  }
  return count(proposer);
}

Outcome accept(Proposer& proposer, Members const& members) {
  Outcome last = Outcome::nothing;
  for (auto const member : members) {
    last = hear_acceptance(proposer, member);
  }
  return last;
}

Outcome fence(Proposer& proposer, std::uint64_t number) {
  return hear_fence(proposer, AcceptedDecree{{2, 1}, decree(number)});
}

/// A proposer of four members with a fence, in this stage.
Proposer in(Stage stage) {
  Proposer proposer;
  proposer.decided = decree(1);
  proposer.proposal = decree(2);
  proposer.ballot = {1, 3};
  if (stage == Stage::idle) {
    return proposer;
  }
  begin_round(proposer, {2, 0});
  if (stage == Stage::asking) {
    return proposer;
  }
  if (stage == Stage::claiming || stage == Stage::fenced) {
    REQUIRE(promise(proposer, {0, 1}) == Outcome::half);
    REQUIRE(half_is_all(proposer) == Outcome::elected);
  } else {
    REQUIRE(promise(proposer, {0, 1, 2}) == Outcome::elected);
  }
  proposer.proposal = decree(2);
  if (stage > Stage::elected) {
    REQUIRE(propose(proposer) != Outcome::nothing);
  }
  if (stage == Stage::settling) {
    REQUIRE(accept(proposer, {0, 1}) == Outcome::half);
    REQUIRE(half_is_all(proposer) == Outcome::claim);
  } else if (stage == Stage::fenced) {
    REQUIRE(fence(proposer, 2) == Outcome::send);
  }
  REQUIRE(proposer.stage == stage);
  return proposer;
}

struct Row {
  std::string event;
  Event feed;
  std::function<void(Proposer&)> before = {};
};

Event promises(Members const& members, std::optional<AcceptedDecree> const& first = {}) {
  return [=](Proposer& proposer) { return promise(proposer, members, first); };
}

Event accepts(Members const& members) {
  return [=](Proposer& proposer) { return accept(proposer, members); };
}

Outcome refuse(Proposer& proposer) {
  return hear_refusal(proposer, 2);
}

void adopts(Proposer& proposer) {
  proposer.highest = AcceptedDecree{{1, 3}, decree(9)};
}

std::function<void(Proposer&)> by(Right right) {
  return [right](Proposer& proposer) { proposer.right = right; };
}

std::vector<Row> table() {
  return {
      {"a round begins",
       [](auto& p) {
         return begin_round(p, {3, 0}), Outcome::nothing;
       }},
      {"the campaign is given up", [](auto& p) { return give_up(p), Outcome::nothing; }},
      {"promised by fewer than half", promises({3})},
      {"… by exactly half", promises({2, 3})},
      {"… by a quorum", promises({1, 2, 3})},
      {"… by a quorum, and one of them has accepted a decree", promises({1, 2, 3}, AcceptedDecree{{1, 3}, decree(9)})},
      {"half have promised, and nobody else will", half_is_all, promises({2, 3})},
      {"the only other member is proven dead", survive},
      {"a member has promised a higher ballot", refuse},
      {"… and the proposal is adopted", refuse, adopts},
      {"the proposal is ready", propose, by(Right::quorum)},
      {"… and only half have promised", propose, by(Right::half)},
      {"accepted by fewer than half", accepts({3})},
      {"… by exactly half", accepts({2, 3})},
      {"… by a quorum", accepts({1, 2, 3})},
      {"… by the survivor of a pair", accepts({3}), by(Right::survivor)},
      {"half have accepted, and nobody else will", half_is_all, accepts({2, 3})},
      {"the fence is ours", [](auto& p) { return fence(p, 2); }},
      {"the fence is another's", [](auto& p) { return fence(p, 7); }},
      {"the fence cannot be claimed", [](auto& p) { return hear_fence(p, std::nullopt); }},
  };
}

std::string text(Outcome outcome) {
  static char const* const names[] = {"",        "half", "",           "send the proposal", "claim the fence",
                                      "decided", "lost", "partitioned"};
  return names[static_cast<int>(outcome)];
}

constexpr char const* kStages[] = {"idle", "asking", "elected", "claiming", "proposed", "settling", "fenced"};

/// "–": nothing has changed; "noted": only the set of answers or the ballot.
std::string cell(Proposer const& before, Proposer const& after, Outcome outcome) {
  std::string result = after.stage == before.stage ? "" : kStages[static_cast<int>(after.stage)];
  result += after.stage != before.stage && after.adopted() && !before.adopted() ? ", adopts" : "";
  result += (result.empty() || text(outcome).empty() ? "" : ": ") + text(outcome);
  return result.empty() ? (before == after ? "–" : "noted") : result;
}

}  // namespace

TEST_CASE("proposer: every cell of the table in docs/design/election.md is what happens", "[unit]") {
  auto const rows = cxxrun::testing::documented_table("design/election.md", "| event | idle |");
  auto const walked = table();
  REQUIRE(rows.size() == walked.size() + 1);
  REQUIRE(rows.front() ==
          std::vector<std::string>{"event", "idle", "asking", "elected", "claiming", "proposed", "settling", "fenced"});
  for (std::size_t i = 0; i < walked.size(); ++i) {
    std::vector<std::string> row{walked[i].event};
    for (auto const stage : {Stage::idle, Stage::asking, Stage::elected, Stage::claiming, Stage::proposed,
                             Stage::settling, Stage::fenced}) {
      Proposer before = in(stage);
      if (walked[i].before) {
        walked[i].before(before);
      }
      Proposer after = before;
      Outcome const outcome = walked[i].feed(after);
      row.push_back(cell(before, after, outcome));
    }
    CHECK(rows[i + 1] == row);
  }
}

TEST_CASE("proposer: the highest of what its voters have accepted is adopted, and nothing that comes later", "[unit]") {
  Proposer proposer = in(Stage::asking);
  hear_promise(proposer, 0, AcceptedDecree{{1, 3}, decree(5)});
  hear_promise(proposer, 1, AcceptedDecree{{2, 1}, decree(6)});
  REQUIRE(promise(proposer, {2}, AcceptedDecree{{1, 9}, decree(7)}) == Outcome::elected);
  CHECK(proposer.adopted());
  CHECK(proposer.proposal == decree(6));
  hear_promise(proposer, 3, AcceptedDecree{{9, 9}, decree(8)});
  CHECK(proposer.proposal == decree(6));
  CHECK(proposer.promised.size() == 3);
}

TEST_CASE("proposer: elected by half, one more promise makes the fence needless, unless that member has accepted",
          "[unit]") {
  Proposer half = in(Stage::asking);
  REQUIRE(promise(half, {0, 1}) == Outcome::half);
  REQUIRE(half_is_all(half) == Outcome::elected);
  CHECK(half.right == Right::half);
  hear_promise(half, 2, AcceptedDecree{{1, 3}, decree(9)});
  CHECK(half.right == Right::half);
  hear_promise(half, 3, {});
  CHECK(half.right == Right::quorum);
}

TEST_CASE("proposer: what is decided empties the instance and names who decides next", "[unit]") {
  Proposer proposer = in(Stage::proposed);
  REQUIRE(accept(proposer, {0, 1, 2}) == Outcome::decided);
  conclude(proposer);
  Proposer next;
  next.decided = decree(2);
  next.ballot = {1, 3};
  CHECK(proposer == next);
}
