// docs/use/restarts.md: how many restarts are left, how long one waits, what is not tried again, what looks the same.
#include "rendezvous/history/restarts.hpp"

#include <set>

#include "rendezvous/membership/membership.hpp"
#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace): the units under test
using namespace std::chrono_literals;

namespace {

WorkerExit exited(int code, std::string said = "") {
  WorkerExit exit;
  exit.status = ExitStatus::exited(code);
  exit.stderr_tail = std::move(said);
  return exit;
}

Streak young(Streak streak, std::uint32_t times, WorkerExit const& exit = exited(1)) {
  for (std::uint32_t i = 0; i < times; ++i) {
    streak = after_failure(streak, false, exit);
  }
  return streak;
}

}  // namespace

TEST_CASE("restarts: a restart waits as long as the table in docs/use/restarts.md says", "[unit]") {
  auto const rows = cxxrun::testing::documented_table("use/restarts.md", "| failure in a row |");
  REQUIRE(rows.size() == 5);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    auto const failures = static_cast<std::uint32_t>(std::stoul(rows[i][0]));
    CHECK(failures == i);
    CHECK(seconds_text(delay_after(young({}, failures), Policy{})) == rows[i][1]);
  }
  CHECK(delay_after(young({}, 1000), Policy{}) == 30s);
  CHECK(delay_after({}, Policy{}) == 0s);
}

TEST_CASE("restarts: --restart-delay is the longest wait, and 0 is none", "[unit]") {
  Policy policy;
  policy.restart_delay = 2s;
  CHECK(delay_after(young({}, 2), policy) == 1s);
  CHECK(delay_after(young({}, 3), policy) == 2s);
  policy.restart_delay = 0s;
  CHECK(delay_after(young({}, 9), policy) == 0s);
}

TEST_CASE("restarts: the failure of a generation that lived is the first of its row, and like no other", "[unit]") {
  auto const streak = after_failure(young({}, 5), true, exited(1));
  CHECK(streak.failures == 1);
  CHECK(streak.alike == 0);
  auto const next = after_failure(streak, false, exited(1));
  CHECK(next.failures == 2);
  CHECK(next.alike == 1);
}

TEST_CASE("restarts: a generation that ends without a failure ends a row only when it lived", "[unit]") {
  auto const row = young({}, 2);
  CHECK(after_end(row, false) == row);
  CHECK(after_end(row, true) == Streak{});
}

TEST_CASE("restarts: failures that look the same are counted until one looks different", "[unit]") {
  auto streak = young({}, 2);
  CHECK(streak.alike == 2);
  streak = after_failure(streak, false, exited(3));
  CHECK(streak.alike == 1);
  CHECK(streak.failures == 3);
  CHECK(young(streak, 2, exited(3)).alike == kAlikeEnough);
}

TEST_CASE("restarts: numbers do not make a failure look different; how it ended and what it says do", "[unit]") {
  auto const one = exited(1, "12:03:01 [17] cannot map 0x7f3a00b2: no memory\n");
  CHECK(look_of(one) == look_of(exited(1, "12:03:09 [4018] cannot map 0x7fabcdef12: no memory\n\n")));
  CHECK(look_of(one) != look_of(exited(1, "12:03:01 [17] cannot open 0x7f3a00b2: no memory\n")));
  CHECK(look_of(one) != look_of(exited(2, one.stderr_tail)));
  auto killed = one;
  killed.status = ExitStatus::signalled(9);
  auto hung = killed;
  hung.hung = "did not enter all_reduce #812";
  CHECK(look_of(killed) != look_of(hung));
  std::set<std::uint64_t> const looks = {look_of(one), look_of(killed), look_of(hung), look_of(exited(1))};
  CHECK(looks.size() == 4);
}

TEST_CASE("restarts: the line that says why counts, whatever is said after it", "[unit]") {
  auto exit = exited(1, "note: try pip\nbye\n");
  CHECK(missing_dependency(exit).empty());
  auto const before = look_of(exit);
  exit.told = "\033[1;35mModuleNotFoundError\033[0m: No module named 'apex'";
  CHECK(missing_dependency(exit) == "ModuleNotFoundError: No module named 'apex'");
  CHECK(look_of(exit) != before);
  exit.told = "ValueError: 3";
  exit.stderr_tail = "ImportError: of an optional part\n";
  CHECK(missing_dependency(exit).empty());
}

TEST_CASE("restarts: an answer is missing by the words of input() and of the debugger, and not by others", "[unit]") {
  for (std::string const words :
       {"EOFError: EOF when reading a line", "bdb.BdbQuit", "Quitting pdb will kill the process. Quit anyway? [y/n]"}) {
    CHECK(permanent_failure(exited(1, "Traceback (most recent call last):\n  x\n" + words + "\n")) == words);
    CHECK(permanent_failure(exited(2, words)).empty());
    auto told = exited(1, words);
    told.told = "ValueError: 3";
    CHECK(permanent_failure(told).empty());
  }
  for (std::string const words : {"EOFError: Ran out of input", "EOFError", "bdb.BdbQuit was raised"}) {
    CHECK(permanent_failure(exited(1, words)).empty());
  }
}

TEST_CASE("restarts: a refusal of the package comes again in each restart, and what a script makes of it does not",
          "[unit]") {
  for (std::string const words :
       {"cxxrun.RefusedError: cxxrun.torch: send is not carried by the group that survives",
        "RuntimeError: Got the following error when running the callback: RefusedError: cxxrun.torch: a call"}) {
    CHECK(permanent_failure(exited(1, "Traceback (most recent call last):\n  x\n" + words + "\n")) == words);
    CHECK(permanent_failure(exited(2, words)).empty());
    CHECK(is_repeated(words));
  }
  for (std::string const words :
       {"failed: cxxrun.torch: send is not carried by the group that survives", "NotImplementedError: of the script",
        "cxxrun._lib.PeerFailure: rank 1 died", "ValueError: RefusedError: of the script"}) {
    CHECK(permanent_failure(exited(1, words)).empty());
    CHECK_FALSE(is_repeated(words));
  }
  CHECK(is_repeated("bdb.BdbQuit"));
  CHECK(is_repeated("ModuleNotFoundError: No module named 'apex'"));
}

TEST_CASE("restarts: a program lacks something exactly with the codes and words in docs/use/restarts.md", "[unit]") {
  auto const rows = cxxrun::testing::documented_table("use/restarts.md", "| exit code | last words |");
  REQUIRE(rows.size() == 8);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CAPTURE(rows[i][1]);
    int const code = std::stoi(rows[i][0]);
    std::string const words = rows[i][1].substr(1, rows[i][1].size() - 2);
    CHECK(missing_dependency(exited(code, "starts\n" + words + "\n")) == words);
    CHECK(missing_dependency(exited(code + 1, words)).empty());
    auto killed = exited(code, words);
    killed.status = ExitStatus::signalled(code);
    CHECK(missing_dependency(killed).empty());
  }
  CHECK(missing_dependency(exited(1, "no module named apex")).empty());
  CHECK(missing_dependency(exited(1)).empty());
  WorkerExit missing;
  missing.status = ExitStatus::not_started(2);
  CHECK_FALSE(missing_dependency(missing).empty());
}

TEST_CASE("restarts: without a window every restart counts for ever", "[unit]") {
  Policy policy;
  policy.max_restarts = 2;
  Restarts restarts;
  CHECK(restart_left(restarts, TimePoint{}, policy));
  consume_restart(restarts, TimePoint{}, policy);
  CHECK(restart_text(restarts, TimePoint{} + 1h, policy) == "restart 1 of 2");
  consume_restart(restarts, TimePoint{} + 1h, policy);
  CHECK_FALSE(restart_left(restarts, TimePoint{} + 1000h, policy));
}

TEST_CASE("restarts: a restart leaves the window exactly when it is that old, and little is remembered", "[unit]") {
  Policy policy;
  policy.max_restarts = 2;
  policy.restart_window = 60s;
  Restarts restarts;
  for (int i = 0; i < 1000; ++i) {
    consume_restart(restarts, TimePoint{} + i * 30s, policy);
  }
  auto const last = TimePoint{} + 999 * 30s;
  CHECK(restarts.consumed == 1000);
  CHECK(restarts.newest.size() == 2);
  CHECK_FALSE(restart_left(restarts, last + 29999ms, policy));
  CHECK(restart_left(restarts, last + 30s, policy));
  CHECK(restart_text(restarts, last, policy) == "restart 1000 (2 of 2 within 60 s)");
}

TEST_CASE("restarts: no restart allowed is none, with a window or without", "[unit]") {
  Policy policy;
  policy.max_restarts = 0;
  policy.restart_window = 60s;
  CHECK_FALSE(restart_left({}, TimePoint{}, policy));
}

TEST_CASE("restarts: an elected coordinator counts the restarts it inherits as of now, once", "[unit]") {
  Policy policy;
  policy.max_restarts = 3;
  policy.restart_window = 60s;
  Restarts restarts;
  auto const now = TimePoint{} + 1000s;
  inherit_restarts(restarts, 2, now, policy);
  inherit_restarts(restarts, 2, now + 1s, policy);
  CHECK(restarts.consumed == 2);
  CHECK(restarts_counted(restarts, now + 59s, policy) == 2);
  CHECK(restarts_counted(restarts, now + 60s, policy) == 0);
  inherit_restarts(restarts, 1000, now, policy);
  CHECK_FALSE(restart_left(restarts, now, policy));
}

TEST_CASE("restarts: who campaigns inherits what the lost coordinator consumed", "[unit]") {
  Policy policy;
  policy.min_nodes = 1;
  policy.max_nodes = policy.max_restarts = 3;
  policy.restart_window = 60s;
  State state;
  state.phase = Phase::standby;
  Campaign campaign;
  campaign.decided.number = 4;
  campaign.decided.size = 3;
  campaign.decided.restarts = 2;
  campaign.ballot = Ballot{2, 1};
  auto const now = TimePoint{} + 1000s;
  state = step(std::move(state), campaign, now, policy).next;
  CHECK(state.restarts.consumed == 2);
  CHECK(restarts_counted(state.restarts, now + 59s, policy) == 2);
  CHECK(restarts_counted(state.restarts, now + 60s, policy) == 0);
}
