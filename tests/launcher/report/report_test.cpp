#include "launcher/report/report.hpp"

#include <sstream>

#include "launcher/report/report_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using namespace std::chrono_literals;
using rendezvous::End;
using rendezvous::Failure;
using rendezvous::History;
using rendezvous::Spent;
using rendezvous::Verdict;

namespace {

Verdict two_failures() {
  Verdict verdict;
  verdict.end = End::worker_failed;
  verdict.exit_code = 137;
  verdict.summary = "rank 3 on node1: signal 9 (SIGKILL); no restart left";
  verdict.generation = 2;
  verdict.restarts = 1;
  verdict.max_restarts = 1;
  rendezvous::Failure cause;
  cause.host = "node1";
  cause.group_rank = 1;
  cause.exit.rank = 3;
  cause.exit.local_rank = 1;
  cause.exit.pid = 77;
  cause.exit.status = ExitStatus::signalled(9);
  cause.exit.stderr_tail = "step 41\nstep 42\n";
  rendezvous::Failure other;
  other.host = "node0";
  other.exit.status = ExitStatus::exited(1);
  verdict.failures = {cause, other};
  verdict.stopped = {{"SIGTERM by cxxrun", 15}};
  return verdict;
}

}  // namespace

TEST_CASE("report: the cause is told in full, the others in a line for all that ended alike", "[unit]") {
  std::string const line(72, '=');
  CHECK(launcher::format_report(two_failures(), "train.py", false) ==
        line +
            "\ncxxrun: train.py: worker failed\n"
            "  rank 3 on node1: signal 9 (SIGKILL); no restart left\n"
            "  first failure: rank 3 on node1 (node 1, local rank 1, pid 77)\n"
            "  how:           signal 9 (SIGKILL)\n"
            "  log:           not kept; --log-dir DIR --tee 3 keeps it\n"
            "  last lines of its stderr:\n"
            "    | step 41\n"
            "    | step 42\n"
            "  15 others:     SIGTERM by cxxrun\n"
            "  1 other:       rank 0 on node0: exit code 1\n"
            "  restarts used: 1 of 1, last generation 2\n"
            "  exit code:     137\n" +
            line + "\n");
}

TEST_CASE("report: who had left before victims failed is named with its time, at most three of them", "[unit]") {
  Verdict verdict = two_failures();
  verdict.left = {{0, "node\n0", 1'000}};
  CHECK(
      launcher::format_report(verdict, "train.py", false).find("\n  left before:   with exit code 0: rank 0 on node") !=
      std::string::npos);
  CHECK(launcher::format_report(verdict, "train.py", false).find(":01.000\n") != std::string::npos);
  CHECK(launcher::verdict_json(verdict).find("\"left_before\": [\n    {\n      \"host\": \"node\\n0\"") !=
        std::string::npos);
  verdict.left.assign(9, {7, "node0", 0});
  CHECK(launcher::format_report(verdict, "train.py", false).find("rank 7 on node0 and 6 more\n") != std::string::npos);
  verdict.left.clear();
  CHECK(launcher::format_report(verdict, "train.py", false).find("left before") == std::string::npos);
}

TEST_CASE("report: of a worker that could not be started one line says why, and none is its stderr", "[unit]") {
  auto verdict = two_failures();
  verdict.end = rendezvous::End::could_not_start;
  auto& exit = verdict.failures[0].exit;
  exit.status = ExitStatus::not_started(2);
  exit.cause = "'/home/u/train' (working directory /home/u)";
  exit.stderr_tail = "cannot start './train': No such file or directory";

  auto const report = launcher::format_report(verdict, "./train", false);
  CHECK(report.find("  how:           could not be started: No such file or directory: " + exit.cause +
                    "\n"
                    "  why:           " +
                    exit.stderr_tail + "\n") != std::string::npos);
  CHECK(report.find("stderr:") == std::string::npos);
}

TEST_CASE("report: of a worker that cxxrun killed the reason is told, not the signal alone", "[unit]") {
  auto verdict = two_failures();
  verdict.failures[0].exit.hung = "did not enter barrier #8 for 62 s that 7 others waited in";
  CHECK(launcher::format_report(verdict, "x", false)
            .find("  how:           killed because it did not enter barrier #8 for 62 s that 7 others waited in\n") !=
        std::string::npos);
  CHECK(launcher::verdict_json(verdict).find("\"hung\": \"did not enter barrier #8") != std::string::npos);
}

TEST_CASE("report: the cause that its node knows stands behind how it ended, and the advice below", "[unit]") {
  auto verdict = two_failures();
  verdict.failures[0].exit.cause = "killed by the kernel: memory limit 100 MiB of step 3.0";
  verdict.failures[0].exit.advice = "raise --mem";
  verdict.failures[1].exit.cause = "disk full: /tmp";
  auto const report = launcher::format_report(verdict, "x", false);
  CHECK(report.find("  how:           signal 9 (SIGKILL): killed by the kernel: memory limit 100 MiB of step 3.0\n"
                    "  advice:        raise --mem\n") != std::string::npos);
  CHECK(report.find("    rank 0 on node0: exit code 1: disk full: /tmp\n") != std::string::npos);
  auto const json = launcher::verdict_json(verdict);
  CHECK(json.find("\"cause\": \"killed by the kernel: memory") != std::string::npos);
  CHECK(json.find("\"advice\": \"raise --mem\"") != std::string::npos);
}

TEST_CASE("report: whoever had to be killed is named with where it stood, also where nobody has failed", "[unit]") {
  Verdict verdict;
  verdict.end = rendezvous::End::stopped;
  auto const killed = [&](std::uint32_t rank, std::string const& host, std::string const& place) {
    rendezvous::Failure one;
    one.host = host;
    one.exit.rank = rank;
    one.exit.cause = "had not ended 30 s after SIGTERM" + place;
    verdict.killed.push_back(one);
  };
  killed(0, "n0", "; it stood at a.py:7 in f");
  killed(1, "n0", "; it stood at a.py:9 in g\033[2J");
  killed(2, "n1", "; it stood at a.py:7 in f");
  auto const report = launcher::format_report(verdict, "x", false);
  CHECK(
      report.find("\n  killed:        ranks 0, 2 on n[0-1]: had not ended 30 s after SIGTERM; it stood at a.py:7 in f\n"
                  "  killed:        rank 1 on n0: had not ended 30 s after SIGTERM; it stood at a.py:9 in g?[2J\n") !=
      std::string::npos);
  CHECK(launcher::verdict_json(verdict).find("\"cause\": \"had not ended 30 s after SIGTERM; it stood") !=
        std::string::npos);
  for (std::uint32_t rank = 3; rank < 9; ++rank) {
    killed(rank, "n2", "; it stood at b.py:" + std::to_string(rank) + " in h");
  }
  CHECK(launcher::format_report(verdict, "x", false).find("\n  killed:        5 more; verdict.json names them\n") !=
        std::string::npos);
}

TEST_CASE("report: a success has none, and colour is only on request", "[unit]") {
  CHECK(launcher::format_report(Verdict{}, "x", true).empty());
  CHECK(launcher::format_report(two_failures(), "x", true).find("\033[") != std::string::npos);
  CHECK(launcher::format_report(two_failures(), "x", false).find('\033') == std::string::npos);
}

TEST_CASE("report: what went wrong before any worker ran is one line", "[unit]") {
  Verdict verdict;
  verdict.end = rendezvous::End::system_failure;
  verdict.summary = "--master-port: store port 29500 is taken";
  CHECK(launcher::format_report(verdict, "x", true) == "cxxrun: --master-port: store port 29500 is taken\n");
}

TEST_CASE("report: excluded nodes are named in the text and in the JSON", "[unit]") {
  auto verdict = two_failures();
  verdict.excluded = {"node7: health check: exit code 1"};
  CHECK(launcher::format_report(verdict, "x", false).find("  excluded:      node7: health") != std::string::npos);
  CHECK(launcher::verdict_json(verdict).find("\"node7: health check: exit code 1\"") != std::string::npos);
}

TEST_CASE("report: lost nodes, and failures that followed a rank, are in the text and in the JSON", "[unit]") {
  auto verdict = two_failures();
  verdict.lost_nodes = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"};
  verdict.followed = {"failure followed rank 3 from n1 to n2: n1 is back"};
  auto const text = launcher::format_report(verdict, "x", false);
  CHECK(text.find("\n  lost nodes:    n1, n2, n3, n4, n5, n6, n7, n8 and 1 more\n") != std::string::npos);
  CHECK(text.find("\n  failure followed rank 3 from n1 to n2: n1 is back\n") != std::string::npos);
  CHECK(launcher::verdict_json(verdict).find("\"failure followed rank 3 from n1") != std::string::npos);
}

TEST_CASE("report: nothing that a node has said begins a line or an escape of its own", "[unit]") {
  std::string const forged = "x\ncxxrun: verdict: success\x1b[2J";
  Verdict verdict = two_failures();
  verdict.summary = verdict.failures[0].host = verdict.failures[1].host = forged;
  verdict.failures[1].exit.hung = forged;
  verdict.failures[0].exit.cause = forged;
  verdict.failures[0].exit.advice = forged;
  verdict.failures[0].exit.stderr_tail = forged + "\n" + forged + "\n";
  verdict.failures[0].exit.error_file = verdict.failures[0].exit.log = verdict.failures[1].exit.told = forged;
  verdict.failures[0].exit.told = "y" + forged;
  verdict.lost_nodes = verdict.excluded = verdict.followed = {forged};
  std::istringstream report(launcher::format_report(verdict, "train", false));
  for (std::string line; std::getline(report, line);) {
    INFO(line);
    CHECK_FALSE(line.starts_with("cxxrun: verdict"));
    CHECK(line.find('\x1b') == std::string::npos);
  }
}

TEST_CASE("report: restarts are told within their window", "[unit]") {
  auto verdict = two_failures();
  verdict.restarts = 7;
  verdict.restart_window = std::chrono::minutes(1);
  CHECK(launcher::format_report(verdict, "x", false)
            .find("\n  restarts used: 7, at most 1 within 60 s, last generation 2\n") != std::string::npos);
}

TEST_CASE("report: the cause's own words come before its last lines, and its log is named with its host", "[unit]") {
  auto verdict = two_failures();
  auto& exit = verdict.failures[0].exit;
  exit.told = "what():  CUDA error: an illegal memory access was encountered";
  exit.log = "/logs/run_node1/attempt_2/1/stderr.log";
  auto text = launcher::format_report(verdict, "x", false);
  CHECK(text.find("\n  why:           what():  CUDA error: an illegal memory access was encountered\n") <
        text.find("step 41"));
  CHECK(text.find("\n  log:           node1:/logs/run_node1/attempt_2/1/stderr.log\n") != std::string::npos);
  CHECK(text.find("exception:") == std::string::npos);

  exit.error_file = "ValueError: no data";
  exit.told = "ValueError: no data";
  text = launcher::format_report(verdict, "x", false);
  CHECK(text.find("\n  exception:     ValueError: no data\n") != std::string::npos);
  CHECK(text.find("why:") == std::string::npos);  // it would be the same

  exit.status = ExitStatus::not_started(2);
  CHECK(launcher::format_report(verdict, "x", false).find("log:") == std::string::npos);
}

TEST_CASE("report: those that failed alike are one line, and victims say so", "[unit]") {
  Verdict verdict = two_failures();
  auto& cause = verdict.failures[0].exit;
  cause.status = ExitStatus::exited(1);
  cause.told = "ValueError: sample 17 is bad";
  verdict.failures.resize(1);
  for (std::uint32_t rank = 0; rank < 12; ++rank) {
    rendezvous::Failure other = verdict.failures[0];
    other.host = "node" + std::to_string(rank / 4);
    other.exit.rank = rank + 10;
    other.exit.told = "ValueError: sample " + std::to_string(rank) + " is bad";
    if (rank >= 8) {
      other.exit.role = rendezvous::Role::lost_peer;
      other.exit.told = "RuntimeError: Connection closed by peer [10.0.0.2]:" + std::to_string(rank);
    }
    verdict.failures.push_back(other);
  }
  auto const lines = launcher::other_lines(verdict);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "  15 others:     SIGTERM by cxxrun");
  CHECK(lines[1] == "  8 others:      ranks 10-17 on node[0-1]: the same");
  CHECK(lines[2] ==
        "  4 others:      ranks 18-21 on node2: exit code 1, after losing a peer: RuntimeError: Connection closed by"
        " peer [10.0.…");
}

TEST_CASE("report: 512 ranks that fail at once fill at most one screen, whatever they say", "[unit]") {
  Verdict verdict = two_failures();
  verdict.failures.clear();
  for (std::uint32_t rank = 0; rank < 512; ++rank) {
    rendezvous::Failure one;
    one.host = "a-node-with-a-rather-long-name-" + std::to_string(rank / 8);
    one.group_rank = rank / 8;
    one.exit.rank = rank;
    one.exit.status = rank % 2 == 0 ? ExitStatus::signalled(6) : ExitStatus::exited(static_cast<int>(rank % 97));
    one.exit.wall_ms = 1;
    one.exit.told = std::string(5000, static_cast<char>('a' + rank % 26));
    one.exit.error_file = std::string(5000, 'e');
    one.exit.log = "/logs/" + std::string(300, 'l');
    for (int line = 0; line < 20; ++line) {
      one.exit.stderr_tail += std::string(400, 'x') + "\n";
    }
    verdict.failures.push_back(one);
  }
  verdict.lost_nodes = verdict.excluded = {"node7"};
  std::istringstream report(launcher::format_report(verdict, "train.py", false));
  std::size_t rows = 0;
  for (std::string line; std::getline(report, line);) {
    rows += launcher::rows_of(line);
  }
  CHECK(rows <= 40);
  CHECK(rows > 30);
  auto const lines = launcher::other_lines(verdict);
  CHECK(lines.size() == launcher::kOthersShown);
  CHECK(lines.back().find("other ways") != std::string::npos);
}

TEST_CASE("report: a line is cut at a character, and not before it has to be", "[unit]") {
  std::string umlauts;
  for (std::size_t i = 0; i < launcher::kColumns; ++i) {
    umlauts += "ü";
  }
  CHECK(launcher::cut_to_rows(umlauts, 1) == umlauts);
  auto const cut = launcher::cut_to_rows(umlauts + "x", 1);
  CHECK(launcher::rows_of(cut) == 1);
  CHECK(cut == umlauts.substr(2) + "…");
  CHECK(launcher::rows_of("") == 1);
}

TEST_CASE("report: the JSON verdict keeps bytes that are not UTF-8 from breaking it", "[unit]") {
  auto verdict = two_failures();
  verdict.failures[0].exit.stderr_tail = "\xff\xfe";
  auto const json = launcher::verdict_json(verdict);
  CHECK(json.find("\"exit_code\": 137") != std::string::npos);
  CHECK(json.find("\"verdict\": \"worker failed\"") != std::string::npos);
  verdict.failures[0].exit.told = verdict.failures[0].exit.stderr_tail = "\x1b[2J\x07\x7f";
  CHECK(launcher::verdict_json(verdict).find('\x1b') == std::string::npos);
  CHECK(launcher::verdict_json(verdict).find("\"told\": \"\\u001b[2J\\u0007") != std::string::npos);
}

namespace {

/// The job in docs/use/verdict.md.
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
  CHECK(account_lines(history).find("goodput 90.2 % at most: the program reports no steps\n") != std::string::npos);
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
