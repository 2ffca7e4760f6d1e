#include "launcher/logs/log_tail.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using File = live::LogPlace::File;
using Spans = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

TEST_CASE("log following: full files are known by their numbers, the newest first", "[unit]") {
  CHECK(full_files({"stdout.log", "stdout.log.9", "stderr.log.11", "stdout.log.10", "stdout.log.x", "stdout.log."},
                   "stdout.log") == std::vector<std::string>{"stdout.log.10", "stdout.log.9"});
}

TEST_CASE("log following: each byte is read once, also of files that have been rotated since", "[unit]") {
  CHECK(spans_behind({{7, 100}}, {7, 60}, 1000).of_parts == Spans{{60, 100}});
  CHECK(spans_behind({{7, 100}}, {7, 100}, 1000).of_parts == Spans{{100, 100}});
  CHECK(spans_behind({{7, 100}, {8, 50}, {9, 5}}, {7, 60}, 1000).of_parts == Spans{{60, 100}, {0, 50}, {0, 5}});
  CHECK(spans_behind({{9, 5}}, {7, 60}, 1000).of_parts == Spans{{0, 5}});  // the rest of 7 is on another node
  CHECK(spans_behind({{7, 30}}, {7, 60}, 1000).of_parts == Spans{{0, 30}});
}

TEST_CASE("log following: of more than there is time for the newest is read", "[unit]") {
  auto const spans = spans_behind({{7, 100}, {8, 50}, {9, 5}}, {7, 60}, 20);
  CHECK(spans.of_parts == Spans{{100, 100}, {35, 50}, {0, 5}});
  CHECK(spans.left_out == 75);
  CHECK(spans_behind({{7, 100}}, {}, 30).of_parts == Spans{{70, 100}});
}

TEST_CASE("log following: lines are whole", "[unit]") {
  std::string text = "egun\nwhole\nope";
  CHECK(cut_begun_line(text) == 5);
  CHECK(cut_open_line(text, 100) == 3);
  CHECK(text == "whole\n");
  text = "open";
  CHECK(cut_begun_line(text) == 0);
  CHECK(cut_open_line(text, 5) == 4);
  CHECK(text.empty());
  text = "too long";
  CHECK(cut_open_line(text, 8) == 0);
  CHECK(text == "too long");
  append_part(text, "next\n");
  append_part(text, "last");
  CHECK(text == "too long\nnext\nlast");
}
