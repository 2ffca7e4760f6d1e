// The stories of runs are in tests/scenario/runs_scenario.cpp; here is how many are remembered.
#include "rendezvous/net/run_table.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

TEST_CASE("run_table: a run is not forgotten while agents of it are here", "[unit]") {
  RunTable table;
  table.serves_all = true;
  RunKey const lasting = open_run(table, "lasting", {}).key;
  for (int i = 0; i < 255; ++i) {
    RunKey const brief = open_run(table, "brief " + std::to_string(i), {}).key;
    note_verdict(table, brief, {});
    note_closed(table, brief);
  }
  note_verdict(table, lasting, {});
  open_run(table, "one more", {});
  CHECK(find_run(table, lasting) != nullptr);
  note_closed(table, lasting);
  open_run(table, "and one more", {});
  CHECK(find_run(table, lasting) == nullptr);
}
