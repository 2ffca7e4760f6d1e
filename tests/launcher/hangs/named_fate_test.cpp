// The table of docs/design/survival.md about what an agent does with a rank that others have named, row by row.
#include "launcher/hangs/named_fate.hpp"

#include <csignal>
#include <functional>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using Why = PeerFailure::Why;

namespace {

NamedWorker const kComputes{.runs = true};
NamedWorker const kHalted{.runs = true, .waits = true, .halted = true};

/// Left alone at first, and killed if it still is there.
void is_killed_later(Why why, NamedWorker worker) {
  CHECK(fate_of(why, worker) == NamedFate::patience);
  worker.had_patience = true;
  CHECK(fate_of(why, worker) == NamedFate::killed);
  worker.runs = false;
  CHECK(fate_of(why, worker) == NamedFate::nothing);
}

std::map<std::string, std::function<void()>> rows() {
  return {
      {"was given up because it was late, and computes or is stopped",
       [] {
         CHECK(fate_of(Why::timeout, kComputes) == NamedFate::killed);
         CHECK(fate_of(Why::timeout, kHalted) == NamedFate::killed);
       }},
      {"was given up because it was late, and waits in a collective, of a group too",
       [] { is_killed_later(Why::timeout, {.runs = true, .waits = true}); }},
      {"left, was found dead or its connection is lost, and its process runs",
       [] {
         for (Why const why : {Why::left, Why::died, Why::lost}) {
           is_killed_later(why, kComputes);
           is_killed_later(why, kHalted);
         }
       }},
      {"has ended with 0",
       [] {
         for (Why const why : {Why::left, Why::timeout}) {
           CHECK(fate_of(why, {.end = ExitStatus::exited(0)}) == NamedFate::failed);
           CHECK(fate_of(why, {.end = ExitStatus::exited(0), .had_patience = true}) == NamedFate::failed);
         }
       }},
      {"has failed, or is parked",
       [] {
         CHECK(fate_of(Why::died, {.end = ExitStatus::exited(3)}) == NamedFate::nothing);
         CHECK(fate_of(Why::timeout, {.end = ExitStatus::signalled(SIGSEGV)}) == NamedFate::nothing);
         CHECK(fate_of(Why::timeout, {}) == NamedFate::nothing);
       }},
  };
}

}  // namespace

TEST_CASE("named_fate: every row of the agent's table in docs/design/survival.md is what happens", "[unit]") {
  auto const checks = rows();
  auto const documented = cxxrun::testing::documented_rows("design/survival.md", "the accused");
  CHECK(documented.size() == checks.size());
  for (auto const& row : documented) {
    CAPTURE(row);
    REQUIRE(checks.contains(row));
    checks.at(row)();
  }
}
