// The table of docs/design/membership.md, cell by cell: what each event does in each phase.
#include "tests/support/fixtures.hpp"
#include "tests/support/membership_job.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

std::map<std::string, Row> table() {
  return {{"a node joins", joins()},
          {"a member's connection ends, or it is silent", member_lost()},
          {"its index is taken, it was lost 3 times or excluded", refused()},
          {"a spare's connection ends", spare_lost()},
          {"store open / failed", test::store()},
          {"ack", ack()},
          {"unfit", unfit()},
          {"worker failed", failed()},
          {"progress", progress()},
          {"succeeded", succeeded()},
          {"stopped", stopped()},
          {"complete", complete_again()},
          {"told to end", told_to_end()},
          {"the coordinator is told to end", coordinator_told_to_end()},
          {"a person wants it, of this generation", wanted()},
          {"the last agent is gone, and none hosts", abandoned()},
          {"timer", timer()},
          {"message of another generation", of_another_generation()}};
}

std::vector<Phase> phases(std::string const& column) {
  static std::map<std::string, std::vector<Phase>> const all = {
      {"forming", {Phase::forming}},
      {"opening, preparing", {Phase::opening, Phase::preparing}},
      {"running", {Phase::running}},
      {"stopping", {Phase::stopping}},
      {"finished", {Phase::finished}}};
  return all.at(column);
}

}  // namespace

TEST_CASE("membership: every cell of the table in docs/design/membership.md is what happens", "[unit]") {
  auto const rows = cxxrun::testing::documented_table("design/membership.md", "| event | forming |");
  auto const mirrored = table();
  REQUIRE(rows.size() == mirrored.size() + 1);
  auto const& columns = rows.front();
  for (auto row = rows.begin() + 1; row != rows.end(); ++row) {
    CAPTURE(row->front());
    REQUIRE(row->size() == columns.size());
    REQUIRE(mirrored.contains(row->front()));
    for (std::size_t i = 1; i < columns.size(); ++i) {
      CAPTURE(columns[i]);
      auto const& cell = mirrored.at(row->front()).at(columns[i]);
      CHECK(cell.text == (*row)[i]);
      for (auto const phase : phases(columns[i])) {
        cell.check(phase);
      }
    }
  }
}
