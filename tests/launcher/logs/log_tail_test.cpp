#include "launcher/logs/log_tail.hpp"

#include <filesystem>

#include "launcher/logs/log_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/pump_console.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::test::TempDir;

namespace {

constexpr std::uint64_t kMost = 1000;

/// A worker's files, and somebody who follows them.
struct Worker {
  TempDir root;
  std::string dir = root / "attempt_1/0";
  std::string older;
  LogFile out;
  live::LogPlace place;

  explicit Worker(Rotation rotation = {}) { begin(1, rotation); }
  void begin(int generation, Rotation rotation = {}) {
    older = generation > 1 ? dir : "";
    dir = root / ("attempt_" + std::to_string(generation) + "/0");
    std::filesystem::create_directories(dir);
    out = {};
    REQUIRE(out.open(dir + "/stdout.log", rotation));
  }
  void writes(std::string const& text) { REQUIRE(out.append(text)); }
  std::string since(bool ended = false, std::uint64_t most = kMost) {
    auto const tails = read_log_since(dir, older, place, most, ended);
    place = tails.place;
    return tails.streams.empty() ? "none" : tails.streams.front().text;
  }
};

}  // namespace

TEST_CASE("log tail: the end begins with a line", "[process]") {
  Worker worker;
  worker.writes("one\ntwo\nthree\nfo");
  CHECK(read_log_ends(worker.dir, 10).streams.at(0).text == "three\nfo");
  CHECK(read_log_ends(worker.dir, 10).streams.at(0).left_out == 8);
  CHECK(read_log_ends(worker.dir, kMost).streams.at(0).text == "one\ntwo\nthree\nfo");
  CHECK(read_log_ends(worker.root / "none", kMost).streams.empty());
}

TEST_CASE("log tail: each line comes once, when it is whole", "[process]") {
  Worker worker;
  CHECK(worker.since().empty());
  worker.writes("one\ntw");
  CHECK(worker.since() == "one\n");
  CHECK(worker.since().empty());
  worker.writes("o\nthree");
  CHECK(worker.since() == "two\n");
  CHECK(worker.since(true) == "three");
  CHECK(worker.since(true).empty());
}

TEST_CASE("log tail: a line longer than what is read at once comes in pieces", "[process]") {
  Worker worker;
  worker.writes("0123456789");
  CHECK(worker.since(false, 10) == "0123456789");
  worker.writes("abc\n");
  CHECK(worker.since(false, 10) == "abc\n");
}

TEST_CASE("log tail: rotated files are followed, and so is the next generation", "[process]") {
  Worker worker(Rotation{8, 0});
  worker.writes("one\n");
  CHECK(worker.since() == "one\n");
  worker.writes("two\nthree\nfour\nfive\nsi");
  CHECK(worker.since() == "two\nthree\nfour\nfive\n");
  worker.writes("x\nopen");
  worker.begin(2);
  worker.writes("again\n");
  CHECK(worker.since() == "six\nopen\nagain\n");
  CHECK(worker.since().empty());
}

TEST_CASE("log tail: of too much the newest lines come, and what is left out is counted", "[process]") {
  Worker worker;
  worker.writes("one\n");
  CHECK(worker.since() == "one\n");
  worker.writes("two\nthree\nfour\n");
  auto const tails = read_log_since(worker.dir, "", worker.place, 8, false);
  CHECK(tails.streams.at(0).text == "four\n");
  CHECK(tails.streams.at(0).left_out == 10);
  CHECK(tails.streams.at(0).goes_on);
}

TEST_CASE("log tail: a file that is not the one of the place is known", "[process]") {
  Worker worker;
  worker.writes("one\n");
  CHECK_FALSE(read_log_since(worker.dir, "", {1, {{{1, 2}, {0, 0}}}}, kMost, true).streams.at(0).goes_on);
}
