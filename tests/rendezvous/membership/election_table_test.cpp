// The table for elections in docs/design/membership.md: every cell's text, and what it says of the phase that follows.
#include "tests/support/election_race.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun::test::election;  // NOLINT(google-build-using-namespace)

namespace {

std::map<std::string, Cells> table() {
  return {{"its own agent campaigns", campaigns()},
          {"its own agent withdraws", withdraws()},
          {"its own agent learns what is decided under another", learns()},
          {"an agent calls that follows nobody: member of the generation that votes", member_calls()},
          {"… with a later decision", later_decision()},
          {"… a spare", spare()},
          {"vote: promised", promised()},
          {"vote or acceptance: a higher promise", higher_promise()},
          {"accepted", accepted()},
          {"fence: ours / another's, or none", fence()},
          {"death notice from a dead agent's parent", death_notice()},
          {"beat", beat()},
          {"beats ended in order", beats_ended()},
          {"silent for the timeout", silent()},
          {"too few votes are left", too_few_votes()},
          {"authority has run out", no_authority()}};
}

}  // namespace

TEST_CASE("membership: every cell of the table for elections in docs/design/membership.md is what happens", "[unit]") {
  auto const rows = cxxrun::testing::documented_table("design/membership.md", "| event | standby |");
  auto const mirrored = table();
  REQUIRE(rows.size() == mirrored.size() + 1);
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) {
    CAPTURE(row->front());
    REQUIRE(mirrored.contains(row->front()));
    auto const& cells = mirrored.at(row->front());
    REQUIRE(row->size() == cells.size() + 1);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      CAPTURE(rows.front()[i + 1]);
      CHECK(cells[i].text == (*row)[i + 1]);
      cells[i].check();
    }
  }
}
