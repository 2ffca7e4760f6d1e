// The table of docs/design/survival.md about what an agent does with a rank that others have named, row by row.
#include <csignal>
#include <functional>

#include "launcher/hangs/progress_watch.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using Why = PeerFailure::Why;

namespace {

NamedWorker const kComputes{.runs = true};
NamedWorker const kHalted{.runs = true, .waits = true, .halted = true};
NamedWorker const kWaits{.runs = true, .waits = true};

/// The worker is given patience until `when` after it was named, and killed if it still runs then.
void is_killed_after(Millis when, Why why, NamedWorker worker) {
  worker.since = when - 1ms;
  CHECK(fate_of(why, worker) == NamedFate::patience);
  worker.since = when;
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
       [] { CHECK(fate_of(Why::timeout, kWaits) == NamedFate::asked); }},
      {"has been asked, and is stopped",
       [] { CHECK(fate_of(Why::timeout, {.runs = true, .halted = true, .since = 10ms}) == NamedFate::killed); }},
      {"has been asked, and none of its threads has heard it", [] { is_killed_after(2s, Why::timeout, kWaits); }},
      {"has been asked, and a thread of it has heard it, but nothing gives up or moves",
       [] {
         NamedWorker sleeps = kWaits;
         sleeps.since = 160ms;
         sleeps.heard = 149ms;
         CHECK(fate_of(Why::timeout, sleeps) == NamedFate::patience);
         sleeps.heard = 150ms;
         CHECK(fate_of(Why::timeout, sleeps) == NamedFate::killed);
       }},
      {"has been asked, and has begun or ended a call since",
       [] {
         NamedWorker moved{.runs = true, .heard = 1s, .moved = true};  // it may compute by now
         is_killed_after(2s, Why::timeout, moved);
       }},
      {"has been asked, and gives up what it waited for",
       [] {
         NamedWorker unwinds = kWaits;
         unwinds.heard = 5s;
         unwinds.answered = true;
         is_killed_after(6s, Why::timeout, unwinds);
       }},
      {"left, was found dead or its connection is lost, and its process runs",
       [] {
         for (Why const why : {Why::left, Why::died, Why::lost}) {
           CHECK(fate_of(why, kComputes) == NamedFate::patience);
           is_killed_after(2s, why, kComputes);
           is_killed_after(2s, why, kHalted);
         }
       }},
      {"has ended with 0",
       [] {
         for (Why const why : {Why::left, Why::timeout}) {
           CHECK(fate_of(why, {.end = ExitStatus::exited(0)}) == NamedFate::failed);
           CHECK(fate_of(why, {.end = ExitStatus::exited(0), .since = 3s}) == NamedFate::failed);
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
  cxxrun::testing::check_rows(cxxrun::testing::documented_rows("design/survival.md", "the blamed rank"), rows());
}
