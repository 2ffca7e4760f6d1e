// The block of docs/use/verdict.md.
#include "launcher/report/account_text.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using rendezvous::History;
using rendezvous::Spent;
using namespace std::chrono_literals;

namespace {

/// That of the page.
History long_job() {
  History history;
  history.steps = true;
  history.account[Spent::waiting] = 33'200ms;
  history.account[Spent::startup] = 110s;
  history.account[Spent::training] = 7201s;
  history.account[Spent::checkpoint] = 90s;
  history.account[Spent::lost] = 551s;
  history.past = {{1, 8, 64, true, 40s, 3000s, 211s, "node lost: node4"},
                  {2, 8, 64, true, 3300s, 3000s, 340s, "rank 3 on node1: signal 9 (SIGKILL)"},
                  {3, 8, 64, false, 6700s, 1000s, 0s, "all workers finished"}};
  return history;
}

}  // namespace

TEST_CASE("account: the console shows what docs/use/verdict.md shows", "[unit]") {
  auto const page = testing::read_file(std::string(CXXRUN_SOURCE_DIR) + "/docs/use/verdict.md");
  std::string quoted;
  for (auto const& line : split(account_lines(long_job()), '\n')) {
    quoted += line.empty() ? "" : "    " + line + "\n";
  }
  INFO(quoted);
  CHECK(page.find("\n" + quoted) != std::string::npos);
}

TEST_CASE("account: of a program that tells of no steps the goodput is what it can be at most", "[unit]") {
  auto history = long_job();
  history.steps = false;
  CHECK(account_lines(history).find("goodput 90.2 % at most: the program tells of no steps\n") != std::string::npos);
}

TEST_CASE("account: a short job without a failure has one line, and no time none", "[unit]") {
  History history;
  CHECK(account_lines(history).empty());
  history.account[Spent::training] = 9'949ms;
  history.past = {{1, 1, 1, false, 0s, 9s, 0s, "all workers finished"}};
  CHECK(account_lines(history) == "  elapsed:       9.9 s\n");
  CHECK_FALSE(worth_telling(history));
  SECTION("a single failure that ends it is told in the report") {
    history.past[0].failed = true;
    CHECK_FALSE(worth_telling(history));
  }
  SECTION("one that was survived is worth telling") {
    history.past.insert(history.past.begin(), {1, 1, 1, true, 0s, 1s, 0s, "rank 0 on n: exit code 1"});
    CHECK(worth_telling(history));
    history.account[Spent::training] = 999ms;
    CHECK_FALSE(worth_telling(history));
  }
  SECTION("and so are ten seconds") {
    history.account[Spent::lost] = 51ms;
    CHECK(worth_telling(history));
  }
}

TEST_CASE("account: of many failures the costliest are named, and the others counted", "[unit]") {
  History history;
  history.account[Spent::lost] = 100s;
  for (std::uint64_t number = 1; number <= 6; ++number) {
    history.past.push_back({number, 1, 1, true, 0s, 1s, std::chrono::seconds(number), "a\nb\x1b[2J"});
  }
  auto const lines = account_lines(history);
  CHECK(lines.find("6.0 s to the end of generation 6: a?b?[2J\n") < lines.find("4.0 s to the end of generation 4"));
  CHECK(lines.find("generation 3") == std::string::npos);
  CHECK(lines.find("      and to 3 more\n") != std::string::npos);
}
